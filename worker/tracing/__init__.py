"""Tracing with OpenTelemetry: one trace for each run and its child runs.

Only this package imports OpenTelemetry, and only in a process that traces or sets up tracing. Other
packages import ``traced_submission``, ``round_span`` and ``current_trace`` from here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from perdure.worker.tracing.switch import RoundSpan, RunSpan, SuppressTracingErrors, is_on

if TYPE_CHECKING:
    from perdure.worker.store import Claim, Store

__all__ = ["RoundSpan", "RunSpan", "current_trace", "round_span", "traced_submission"]

UNTRACED = nullcontext(RoundSpan())


def round_span(store: Store, claim: Claim, owner: str) -> AbstractContextManager[RoundSpan]:
    """Return a context manager that records an attempt of a round as a span.

    If this process does not trace, the span records nothing.

    Args:
        owner: The name of the worker that runs the round.
    """
    if not is_on():
        return UNTRACED

    from perdure.worker.tracing.round_spans import traced

    return traced(store, claim, owner)


def traced_submission(flow: str, run_id: str) -> AbstractContextManager[RunSpan]:
    """Return a context manager that records a run's submission as its root span.

    If this process does not trace, the span records nothing.
    """
    if not is_on():
        return nullcontext(RunSpan())

    from perdure.worker.tracing.run_spans import submission

    return submission(flow, run_id)


def current_trace() -> str:
    """Return the W3C traceparent of the current span, for example of a round's span.

    The text is empty if this process does not trace, or if no span is current.
    """
    if not is_on():
        return ""

    from opentelemetry import trace

    from perdure.worker.tracing.run_spans import traceparent

    with SuppressTracingErrors("the children of a round"):
        return traceparent(trace.get_current_span()) or ""
    return ""
