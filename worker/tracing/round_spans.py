"""Spans of rounds: one for each attempt.

The span of an attempt is a child of the run's root span and never of another round's. It is linked
to the span of the round before. A worker that was killed cannot end its span. The worker that
released the lease writes one in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.facts import RoundPart
from perdure.worker.domain.settlement import Settlement
from perdure.worker.errors import type_of
from perdure.worker.store import Claim, Store
from perdure.worker.tracing import attributes
from perdure.worker.tracing.run_spans import FIELD, FROM, NS, parent_of, tracer
from perdure.worker.tracing.switch import RoundSpan, SuppressTracingErrors

#: The hash field with the span of the last committed round: ``STEP:SPAN ID``.
SPAN = "span"


class AttemptSpan(RoundSpan):
    """A traced attempt's span. A sampler may still drop it."""

    def __init__(self, span: Span, step: int) -> None:
        self._span = span
        self._step = step
        self._ended = False

    def played(self, context: RoundContext) -> None:
        """Record in the round's span what its node reported and spent."""
        with SuppressTracingErrors("what a round used"):
            self._span.set_attributes(context.traced)
            if "money" in context.spent:
                self._span.set_attribute(attributes.MONEY, context.spent["money"])
            for part in context.parts:
                self._add_part(part)

    def _add_part(self, part: RoundPart) -> None:
        """Create the span of a concurrent part of the round, below the round's span."""
        below = trace.set_span_in_context(self._span)
        span = tracer().start_span(
            part.name, below, attributes=part.attributes, start_time=part.began
        )
        if part.error:
            span.set_attribute(attributes.ERROR, part.error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(part.ended)

    def fields(self, settlement: Settlement) -> Mapping[str, str]:
        """Return the tracing fields that the round's commit writes to the run's hash.

        If the round is done, that is the id of its span, to which the next round's span links. The
        cause of a failed round is recorded in the span.
        """
        with SuppressTracingErrors("a round's commit"):
            if settlement.cause:
                self._fail(settlement.cause)
            if settlement.is_done and self._span.is_recording():
                return {SPAN: f"{self._step}:{self._span.get_span_context().span_id:016x}"}
        return {}

    def outcome(self, word: str) -> None:
        """Record a commit's outcome in the round's span."""
        with SuppressTracingErrors("what a round came to"):
            self._span.set_attribute(attributes.OUTCOME, word)

    def raised(self, error: BaseException) -> None:
        """Record in the span that an exception ended the round."""
        with SuppressTracingErrors("how a round was left"):
            self._fail(type_of(error))

    def end(self) -> None:
        """End the tracing span of a round."""
        with SuppressTracingErrors("the end of a round"):
            self._span.end()

    def _fail(self, cause: str) -> None:
        self._span.set_attribute(attributes.ERROR, cause)
        self._span.set_status(Status(StatusCode.ERROR))


@contextmanager
def traced(store: Store, claim: Claim, owner: str) -> Iterator[RoundSpan]:
    """Start an attempt's span, and end it after the block.

    It is the current span in the block. Spans that the node itself starts become its children.
    """
    attempt: AttemptSpan | None = None
    with SuppressTracingErrors("a round"):
        attempt = _start_attempt(store, claim, owner)
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


def _start_attempt(store: Store, claim: Claim, owner: str) -> AttemptSpan:
    fields = claim.fields
    step = int(fields["step"])
    span_attributes: dict[str, Any] = {
        **facts(fields, step, fields["current_node"], claim.attempt),
        attributes.WORKER: owner,
        attributes.LOSSES: int(fields.get("losses") or 0),
    }
    if fields.get("i_by"):
        span_attributes[attributes.ANSWERED_BY] = fields["i_by"]
    span_attributes[attributes.QUEUE_WAIT] = (claim.waited or 0) / 1000
    return AttemptSpan(start(parent_of(store, fields), fields, step, span_attributes), step)


def facts(fields: Mapping[str, str], step: int, node: str, attempt: int) -> dict[str, Any]:
    """Return the span attributes that identify an attempt: run, flow, node, step and so on."""
    return {
        attributes.RUN: fields["id"],
        attributes.FLOW: fields["flow"],
        attributes.NODE: node,
        attributes.STEP: step,
        attributes.EPOCH: int(fields["epoch"]),
        attributes.ATTEMPT: attempt,
    }


def start(
    parent: Context,
    fields: Mapping[str, str],
    step: int,
    span_attributes: Mapping[str, Any],
    at: int | None = None,
) -> Span:
    """Start and return the span of one attempt.

    Args:
        parent: A context with the run's root span.
        fields: The fields of the run's hash.
        at: When the attempt began, in ms since 1970; None for now.
    """
    begun = None if at is None else at * NS
    return tracer().start_span(
        f"round {span_attributes[attributes.NODE]}",
        parent,
        SpanKind.CONSUMER,
        span_attributes,
        _before(parent, fields, step),
        begun,
    )


def _before(parent: Context, fields: Mapping[str, str], step: int) -> list[Link]:
    """Return a list with a link to the previous round's span. Empty if that was not traced."""
    number, _, span_id = fields.get(SPAN, "").partition(":")
    root = trace.get_current_span(parent).get_span_context()
    if number != str(step - 1) or not root.is_valid:
        return []
    before = SpanContext(
        root.trace_id, int(span_id, 16), is_remote=True, trace_flags=TraceFlags(root.trace_flags)
    )
    return [Link(before, {attributes.STEP: step - 1})]


#: Fields of the run's hash to read.
FIELDS = ("id", "flow", "epoch", "nonce", "created_at", FIELD, FROM, SPAN)
#: Newest events that are read. Another worker may have continued the run since the sweep.
EVENTS_READ = 50


def tell_losses(store: Store, report: Sequence[tuple[str, str]]) -> None:
    """Write a span for each attempt that a sweep found lost.

    The worker that played the attempt is silent and cannot end the span itself.

    Args:
        report: The ids of the runs that the sweep moved, with an outcome each. ``freed`` and
            ``delayed`` are losses, ``errored`` may be one.
    """
    for run_id, word in report:
        if word in ("freed", "delayed", "errored"):
            with SuppressTracingErrors(f"the loss of a worker under run {run_id}"):
                _write_loss(store, run_id, word)


def _write_loss(store: Store, run_id: str, word: str) -> None:
    entries, fields = store.events.newest(run_id, EVENTS_READ, FIELDS)
    event = _lost(entries, word)
    if event is None or "id" not in fields:
        return
    step, at = int(event["step"]), int(event["at"])
    span_attributes = {
        **facts(fields, step, event["node"], int(event["attempt"])),
        attributes.WORKER: event["owner"],
        attributes.LOSSES: int(event["losses"]),
        attributes.OUTCOME: "lost",
        attributes.ERROR: "worker_lost",
    }
    span = start(
        parent_of(store, fields), fields, step, span_attributes, int(event.get("claimed_at") or at)
    )
    span.set_status(Status(StatusCode.ERROR, "worker lost"))
    span.end(at * NS)


def _lost(entries: Sequence[tuple[str, Mapping[str, str]]], word: str) -> Mapping[str, str] | None:
    """Return a run's newest ``lost`` event, or None if no attempt was lost.

    ``entries`` are the run's events, newest first. ``word`` is the sweep's outcome. If it is
    ``errored``, the event counts only if the run's end followed it at once.
    """
    after: Mapping[str, str] = {}
    for _, entry in entries:
        if entry["type"] == "lost":
            ended = after.get("type") == "errored" and after["at"] == entry["at"]
            return entry if word != "errored" or ended else None
        after = entry
    return None
