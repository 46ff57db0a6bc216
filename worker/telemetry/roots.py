"""Roots: the span of the run itself, of which the span of every attempt is a child.

It is made where the run is submitted, and ended there, as no process sees a whole run; its ids stand in the run's hash (``trace``, a W3C
traceparent). A run that came without gets one from the first worker that traces it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from worker.errors import type_of
from worker.store import Store
from worker.telemetry.names import ERROR, FLOW, RUN
from worker.telemetry.sending import soon
from worker.telemetry.submissions import Root
from worker.telemetry.switch import Harmless

#: Where the run's hash keeps it.
FIELD = "trace"
HEADER = "traceparent"
W3C = TraceContextTextMapPropagator()
#: Nanoseconds in one ms: spans count in the former, the store in the latter.
NS = 1_000_000


def tracer() -> Tracer:
    """Of the provider that this process has now."""
    return _tracer(trace.get_tracer_provider())


@lru_cache(maxsize=1)
def _tracer(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("holdfast")


class TracedRoot(Root):
    """One that is told."""

    def __init__(self, span: Span) -> None:
        self._span = span
        text = traceparent(span)
        self.fields = {FIELD: text} if text else {}

    def end(self, error: BaseException | None = None) -> None:
        """End the span, if the run is there, or may be."""
        if not (self.made or error):
            return
        with Harmless("a run's submission"):
            if error is not None:
                self._span.set_attribute(ERROR, type_of(error))
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()


@contextmanager
def submission(flow: str, run_id: str) -> Iterator[Root]:
    """The root of a run that is submitted inside: a child of the caller's current span, where there is one."""
    root: TracedRoot | None = None
    with Harmless("a run's submission"):
        root = TracedRoot(_start(flow, run_id))
    if root is None:
        yield Root()
        return
    try:
        yield root
    except BaseException as error:
        root.end(error)
        raise
    root.end()


def parent_of(store: Store, fields: dict[str, str]) -> Context:
    """What every round of the run is a child of. A run that has no root yet gets one, from the first who asks: so much is written, and
    added to ``fields``.
    """
    text = fields.get(FIELD)
    if text is None:
        begun = int(fields["created_at"]) * NS
        span = _start(fields["flow"], fields["id"], Context(), begun)
        own = traceparent(span)
        if own is None:  # made by a provider that traces nothing
            return Context()
        word, text = store.keep_trace(fields["id"], nonce=fields["nonce"], trace=own)
        if word != "ok":
            return Context()  # the run has gone meanwhile
        fields[FIELD] = text
        if text == own:
            span.end(begun)
            soon.ask()
    return W3C.extract({HEADER: text}, Context())


def traceparent(span: Span) -> str | None:
    """The ids of a span as a header; None where it has none."""
    carrier: dict[str, str] = {}
    W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get(HEADER)


def _start(flow: str, run_id: str, context: Context | None = None, at: int | None = None) -> Span:
    told = {RUN: run_id, FLOW: flow}
    return tracer().start_span(f"run {flow}", context, SpanKind.PRODUCER, told, start_time=at)
