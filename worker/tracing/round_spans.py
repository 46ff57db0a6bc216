"""Spans of rounds: one for each attempt.

The span of an attempt is a child of the run's root span, not of another round's span. The span
links to the span of the previous round. A worker that was killed cannot end its span. The worker
that released the lease writes a span in its place.
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
    """The span of an attempt in a process that traces. A sampler may still drop the span."""

    def __init__(self, span: Span, step: int) -> None:
        self._span = span
        self._step = step
        self._ended = False

    def played(self, context: RoundContext) -> None:
        """Record the node's own span attributes, its cost and its concurrent parts in the span."""
        with SuppressTracingErrors("what a round used"):
            self._span.set_attributes(context.traced)
            if "money" in context.spent:
                self._span.set_attribute(attributes.MONEY, context.spent["money"])
            for part in context.parts:
                self._add_part(part)

    def _add_part(self, part: RoundPart) -> None:
        """Create the span of a concurrent part of the round, as a child of the round's span."""
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

        If the commit completes the step, the field is the id of the round's span, to which the next
        round's span links. Otherwise, or if a sampler drops the span, there is no field. If the
        round failed, the cause is also recorded in the span.
        """
        with SuppressTracingErrors("a round's commit"):
            if settlement.cause:
                self._fail(settlement.cause)
            if settlement.is_done and self._span.is_recording():
                return {SPAN: f"{self._step}:{self._span.get_span_context().span_id:016x}"}
        return {}

    def outcome(self, word: str) -> None:
        """Record the outcome of the commit in the round's span."""
        with SuppressTracingErrors("what a round came to"):
            self._span.set_attribute(attributes.OUTCOME, word)

    def raised(self, error: BaseException) -> None:
        """Record in the span that an exception ended the round."""
        with SuppressTracingErrors("how a round was left"):
            self._fail(type_of(error))

    def end(self) -> None:
        """End the span."""
        with SuppressTracingErrors("the end of a round"):
            self._span.end()

    def _fail(self, cause: str) -> None:
        self._span.set_attribute(attributes.ERROR, cause)
        self._span.set_status(Status(StatusCode.ERROR))


@contextmanager
def traced(store: Store, claim: Claim, owner: str) -> Iterator[RoundSpan]:
    """Start the span of an attempt, and end the span after the ``with`` block.

    The span is the current span in the block, so spans that the node itself starts become its
    children. An exception of the block is recorded in the span and raised again. If the span cannot
    be started, the block gets a ``RoundSpan`` that records nothing.

    Args:
        owner: The name of the worker that runs the round.
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
    """Return the span attributes that identify an attempt: run, flow, node, step and so on.

    Args:
        fields: The fields of the run's hash.
    """
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
        step: The step of the attempt. The span links to the span of the step before.
        at: The time at which the attempt began, in ms since 1970. None for now.
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
    """Return a list with a link to the span of the previous round.

    The list is empty if the previous round was not traced.
    """
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

    The worker that ran the attempt is silent and cannot end the span itself. Errors are logged and
    not raised.

    Args:
        report: The ids of the runs that the sweep moved, each with the sweep's outcome. ``freed``
            and ``delayed`` are losses. ``errored`` is a loss if the sweep also recorded a ``lost``
            event.
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
    """Return the ``lost`` event of the attempt that a sweep found lost.

    Args:
        entries: The newest events of the run, newest first.
        word: The sweep's outcome for the run. If it is ``errored``, the ``lost`` event counts only
            if the next event is the end of the run, at the same time.

    Returns:
        The newest ``lost`` event. None if ``entries`` has no such event, or if it does not count.
    """
    after: Mapping[str, str] = {}
    for _, entry in entries:
        if entry["type"] == "lost":
            ended = after.get("type") == "errored" and after["at"] == entry["at"]
            return entry if word != "errored" or ended else None
        after = entry
    return None
