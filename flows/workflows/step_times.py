"""The time limits of steps: how long a step may take, and how long it may be retried.

A round of several steps has a time limit and a retry policy of its own, the plan of the round.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Any

from perdure.flows.commands.calls import playing
from perdure.flows.commands.execute import carry_out
from perdure.flows.core.errors import (
    OutcomeUnknown,
    RoundStopped,
)
from perdure.flows.core.outcomes import Interrupt
from perdure.flows.core.retry import Retry
from perdure.flows.core.round_journal import SCOPE
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.begun import scope_of_retry
from perdure.flows.workflows.concurrent_steps import StepSignals
from perdure.flows.workflows.requests import StepRequest
from perdure.flows.workflows.step_decisions import (
    refuse,
)

#: Attempts of a round whose steps have their own limits.
UNLIMITED = 1_000_000


class StepTimedOut(OutcomeUnknown):
    """Raised when a step exceeds its time limit. The step may have happened, wholly or in part."""

    code = "step-timed-out"


def is_out_of_time(step: StepRequest, context: RoundContext, policy: Retry) -> bool:
    """Return whether a step has failed for as long as its retry policy allows (``within``).

    This is for one of several concurrent steps. The result is False for the only step of a round,
    because the commit checks that step.

    Args:
        policy: the policy of the step, completed by the flow's.
    """
    within = policy.patience
    if within is None or not context.scope:
        return False
    scope = scope_of_retry("~failing", context) or SCOPE
    name, now = f"{scope}{step.key} failing{context.retried}", time()
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


def plan_of(steps: Sequence[StepRequest]) -> dict[str, Any]:
    """Return the time limit and the retry policy for a round of these steps.

    The round has a time limit of its own only if each step has one.
    """
    plans = [step.plan() for step in steps]
    limits = [plan["timeout"] for plan in plans if "timeout" in plan]
    timeout = {"timeout": max(limits)} if len(limits) == len(plans) else {}
    retries = [step.retry for step in steps if step.retry is not None]
    if not retries:
        return timeout
    retry = retries[0] if len(steps) == 1 else _retry_of_all(retries)
    return {**timeout, "retry": retry.to_data()}


def _retry_of_all(retries: Sequence[Retry]) -> Retry:
    """Return the retry policy of a round with several steps, from the steps' own policies.

    Each step decides by its own policy whether it is retried (``WorkflowRound._is_over``), so the
    round's policy sets no limit. Its waits are the longest ones of all steps.
    """

    def longest(name: str) -> Any:
        return max((value for each in retries if (value := getattr(each, name))), default=None)

    waits = {name: longest(name) for name in ("initial", "maximum", "multiplier", "jitter")}
    return Retry(max_attempts=UNLIMITED, **waits)
