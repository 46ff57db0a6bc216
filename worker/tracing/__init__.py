"""Tracing with OpenTelemetry: one trace for each run.

Only this package imports OpenTelemetry, and only in a process with a tracer provider. Other
packages import ``traced_submission`` and ``round_span`` from here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from perdure.worker.store import Claim, Store
from perdure.worker.tracing.switch import RoundSpan, RunSpan, is_on

__all__ = ["RoundSpan", "RunSpan", "round_span", "traced_submission"]

UNTRACED = nullcontext(RoundSpan())


def round_span(store: Store, claim: Claim, owner: str) -> AbstractContextManager[RoundSpan]:
    """Return a context manager with the tracing span of one attempt of a round.

    ``owner`` is the worker that plays the round. If this process does not trace, the span records
    nothing.
    """
    if not is_on():
        return UNTRACED

    from perdure.worker.tracing.round_spans import traced

    return traced(store, claim, owner)


def traced_submission(flow: str, run_id: str) -> AbstractContextManager[RunSpan]:
    """Return a context manager with the root tracing span of a run that is being submitted.

    If this process does not trace, the span records nothing.
    """
    if not is_on():
        return nullcontext(RunSpan())

    from perdure.worker.tracing.run_spans import submission

    return submission(flow, run_id)
