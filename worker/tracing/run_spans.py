"""The root span of a run. The spans of all attempts are its children.

The root span begins and ends at the submission, because no process lives as long as the run. Its
ids are in the run's hash (``trace``, a W3C traceparent). A run without a root span gets one from
the first worker that traces the run. The root span of a child run is a child of the round that
started the child run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from perdure.worker.errors import type_of
from perdure.worker.store import Store
from perdure.worker.tracing.attributes import ERROR, FLOW, RUN
from perdure.worker.tracing.export import soon
from perdure.worker.tracing.switch import RunSpan, SuppressTracingErrors

#: The hash field that holds the root span's traceparent.
FIELD = "trace"
#: The hash field of a child run with the traceparent of the round that started it.
FROM = "trace_from"
HEADER = "traceparent"
W3C = TraceContextTextMapPropagator()
#: Nanoseconds in one ms: spans use the former, the store the latter.
NS = 1_000_000


#: The provider that was used last, with its tracer. It is no cache of functools, because Logfire's
#: provider cannot be hashed.
_last: list[tuple[TracerProvider, Tracer]] = []


def tracer() -> Tracer:
    """Return the tracer of Perdure from this process's current tracer provider."""
    provider = trace.get_tracer_provider()
    for known, made in _last:
        if known is provider:
            return made
    made = provider.get_tracer("perdure")
    _last[:] = [(provider, made)]
    return made


class TracedRunSpan(RunSpan):
    """The root span of a run that is being submitted, in a process that traces."""

    def __init__(self, span: Span) -> None:
        self._span = span
        text = traceparent(span)
        self.fields = {FIELD: text} if text else {}

    def end(self, error: BaseException | None = None) -> None:
        """End the root span if the run exists or may exist.

        After an error, the run may exist. The span then records the error. Without an error,
        ``made`` says whether the submission created the run. If it did not, the span is not ended,
        and so it is never exported.
        """
        if not (self.made or error):
            return
        with SuppressTracingErrors("a run's submission"):
            if error is not None:
                self._span.set_attribute(ERROR, type_of(error))
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()


@contextmanager
def submission(flow: str, run_id: str) -> Iterator[RunSpan]:
    """Start the root span of a run, which is submitted in the ``with`` block.

    The span is a child of the caller's current span, if there is one. The block sets ``made`` if it
    creates the run. An exception of the block is recorded and raised again. If the span cannot be
    started, the block gets a ``RunSpan`` that records nothing.
    """
    root: TracedRunSpan | None = None
    with SuppressTracingErrors("a run's submission"):
        root = TracedRunSpan(_start(flow, run_id))
    if root is None:
        yield RunSpan()
        return
    try:
        yield root
    except BaseException as error:
        root.end(error)
        raise
    root.end()


def parent_of(store: Store, fields: dict[str, str]) -> Context:
    """Return a context in which new spans become children of the run's root span.

    A run without a root span gets one. Its ids are written to the store and added to ``fields``.
    The context is empty if the tracer provider traces nothing, or if the run no longer exists.

    Args:
        fields: The fields of the run's hash.
    """
    text = fields.get(FIELD)
    if text is None:
        begun = int(fields["created_at"]) * NS
        above = W3C.extract({HEADER: fields.get(FROM, "")}, Context())
        span = _start(fields["flow"], fields["id"], above, begun)
        own = traceparent(span)
        if own is None:  # made by a provider that traces nothing
            return Context()
        word, text = store.runs.set_trace(fields["id"], nonce=fields["nonce"], trace=own)
        if word != "ok":
            return Context()  # the run has gone meanwhile
        fields[FIELD] = text
        if text == own:
            span.end(begun)
            soon.ask()
    return W3C.extract({HEADER: text}, Context())


def traceparent(span: Span) -> str | None:
    """Return a span's W3C header ``traceparent``. None if the span is not valid."""
    carrier: dict[str, str] = {}
    W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get(HEADER)


def _start(flow: str, run_id: str, context: Context | None = None, at: int | None = None) -> Span:
    span_attributes = {RUN: run_id, FLOW: flow}
    return tracer().start_span(
        f"run {flow}", context, SpanKind.PRODUCER, span_attributes, start_time=at
    )
