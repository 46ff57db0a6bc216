"""Attempts: each attempt of a round is a span, a child of the run's root and never of another round, linked to the round before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from flows.context import RoundContext
from worker.errors import type_of
from worker.store import Granted, Store
from worker.telemetry import names
from worker.telemetry.roots import NS, parent_of, tracer
from worker.telemetry.rounds import SPAN, RoundSpan
from worker.telemetry.switch import Harmless
from worker.transitions import Settlement


class Attempt(RoundSpan):
    """A span that somebody looks at, or that at least decides that nobody does (a sampler's)."""

    def __init__(self, span: Span, step: int) -> None:
        self._span = span
        self._step = step
        self._ended = False

    def played(self, context: RoundContext) -> None:
        with Harmless("what a round used"):
            self._span.set_attributes(context.traced)
            if "money" in context.spent:
                self._span.set_attribute(names.MONEY, context.spent["money"])

    def fields(self, settlement: Settlement) -> Mapping[str, str]:
        with Harmless("a round's commit"):
            if settlement.cause:
                self._fail(settlement.cause)
            if settlement.is_done and self._span.is_recording():
                return {SPAN: f"{self._step}:{self._span.get_span_context().span_id:016x}"}
        return {}

    def outcome(self, word: str) -> None:
        with Harmless("what a round came to"):
            self._span.set_attribute(names.OUTCOME, word)

    def raised(self, error: BaseException) -> None:
        """It was left without a commit."""
        with Harmless("how a round was left"):
            self._fail(type_of(error))

    def end(self) -> None:
        """It is over, whatever came of it."""
        with Harmless("the end of a round"):
            self._span.end()

    def _fail(self, cause: str) -> None:
        self._span.set_attribute(names.ERROR, cause)
        self._span.set_status(Status(StatusCode.ERROR))


@contextmanager
def traced(store: Store, claim: Granted, owner: str) -> Iterator[RoundSpan]:
    """The span of what is played inside, which is the current one there: what a node traces of its own is within."""
    attempt: Attempt | None = None
    with Harmless("a round"):
        attempt = _begun(store, claim, owner)
    if attempt is None:
        yield RoundSpan()
        return
    with trace.use_span(attempt._span, record_exception=False, set_status_on_exception=False):
        try:
            yield attempt
        except BaseException as error:
            attempt.raised(error)
            raise
        finally:
            attempt.end()


def _begun(store: Store, claim: Granted, owner: str) -> Attempt:
    fields = claim.fields
    step = int(fields["step"])
    told: dict[str, Any] = {
        **facts(fields, step, fields["current_node"], claim.attempt),
        names.WORKER: owner,
        names.LOSSES: int(fields.get("losses") or 0),
    }
    if fields.get("i_by"):
        told[names.ANSWERED_BY] = fields["i_by"]
    if claim.kept:
        told[names.QUEUE_WAIT] = 0.0
    elif fields.get("queued_at"):
        told[names.QUEUE_WAIT] = max(0, int(fields["claimed_at"]) - int(fields["queued_at"])) / 1000
    return Attempt(start(parent_of(store, fields), fields, step, told), step)


def facts(fields: Mapping[str, str], step: int, node: str, attempt: int) -> dict[str, Any]:
    """Which attempt it is, as attributes of its span."""
    return {
        names.RUN: fields["id"],
        names.FLOW: fields["flow"],
        names.NODE: node,
        names.STEP: step,
        names.EPOCH: int(fields["epoch"]),
        names.ATTEMPT: attempt,
    }


def start(parent: Context, fields: Mapping[str, str], step: int, told: Mapping[str, Any], at: int | None = None) -> Span:
    """The span of an attempt of ``step``. ``at``: when it began, in ms since 1970; None for now."""
    begun = None if at is None else at * NS
    return tracer().start_span(f"round {told[names.NODE]}", parent, SpanKind.CONSUMER, told, _before(parent, fields, step), begun)


def _before(parent: Context, fields: Mapping[str, str], step: int) -> list[Link]:
    """A link to the round committed just before; none where nobody traced that one."""
    number, _, span_id = fields.get(SPAN, "").partition(":")
    root = trace.get_current_span(parent).get_span_context()
    if number != str(step - 1) or not root.is_valid:
        return []
    before = SpanContext(root.trace_id, int(span_id, 16), is_remote=True, trace_flags=TraceFlags(root.trace_flags))
    return [Link(before, {names.STEP: step - 1})]
