"""The time limits of steps: how long a step may take, and how long it may be retried."""

from __future__ import annotations

from time import time
from typing import Any

from perdure.flows.commands.calls import playing
from perdure.flows.commands.execute import carry_out
from perdure.flows.core.errors import (
    OutcomeUnknown,
    RoundStopped,
)
from perdure.flows.core.outcomes import Interrupt
from perdure.flows.core.round_journal import SCOPE
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.concurrent_steps import StepSignals
from perdure.flows.workflows.requests import StepRequest
from perdure.flows.workflows.step_decisions import (
    refuse,
)


class StepTimedOut(OutcomeUnknown):
    """Raised when a step exceeds its time limit. It may have happened, as a whole or in part."""

    code = "step-timed-out"


def is_out_of_time(step: StepRequest, context: RoundContext) -> bool:
    """Return whether a step has failed for as long as its retry policy allows (``within``).

    This is for one of several concurrent steps. It is False for the only step of a round, since
    the commit checks that one.
    """
    within = None if step.retry is None else step.retry.patience
    if within is None or not context.scope:
        return False
    name, now = f"{SCOPE}{step.key} failing", time()
    began = context.journal.recorded.get(name) or context.journal.record(name, str(now))
    return now - float(began) >= within


def carry_out_in_time(step: StepRequest, context: RoundContext) -> Any:
    """Carry out a step within its time limit, and return its result.

    Raises:
        StepTimedOut: the step took longer than its time limit.
    """
    signals = context.signals
    if not isinstance(signals, StepSignals):
        return carry_out(step, {}, context, refuse)
    late = (
        f"run {context.run_id}, step {context.step}: step {step.key} took longer than its time "
        f"limit ({step.timeout or 0:g} s)"
    )
    try:
        with playing(signals.cancelled):
            result = carry_out(step, {}, context, refuse)
    except RoundStopped as error:
        if signals.of_round.is_cancelled or not signals.is_late:
            raise
        raise StepTimedOut(f"{late}, and was cancelled") from error
    if signals.is_late and not isinstance(result, Interrupt):
        raise StepTimedOut(f"{late}. It did not look at context.cancelled, and went on to its end")
    return result
