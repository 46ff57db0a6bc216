"""Rounds that carry out the calls of a reply.

One call is carried out in this run, several calls each in a child run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from perdure.flows.commands.calls import playing
from perdure.flows.core.budgets import COMMANDS
from perdure.flows.core.errors import BadReply, CodeDoesNotFit, FatalError
from perdure.flows.core.names import BAD_REPLIES
from perdure.flows.core.outcomes import Advance, End, Interrupt, Outcome, Renew, Turn
from perdure.flows.core.reply_extras import with_long_replies_apart
from perdure.flows.core.summaries import shown
from perdure.flows.rings.branching_flow import told
from perdure.flows.rings.call_queue import data_of, decided_by
from perdure.flows.rings.circular import CircularFlow
from perdure.flows.rings.controller_settlement import continue_reply
from perdure.flows.rings.definition import ControllerExecutorDefinition
from perdure.flows.rings.parallel_calls import (
    TOGETHER,
    WAIT,
    call_run,
    end_of_call,
    fitted,
    join,
    summary_of_calls,
)
from perdure.flows.rounds.children import Ended, InvalidChild
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.flow import title


def play_one(flow: ControllerExecutorDefinition, node: str, context: RoundContext) -> Outcome:
    """Run a round, and handle a bad reply of the controller. A bad reply names no valid command.

    If the controller reads errors, the bad reply goes back to the controller as a turn.

    Raises:
        CodeDoesNotFit: the reply is bad, and the controller does not read errors.
        FatalError: the reply is bad, and it is the last of ``max_bad_replies`` in succession.
    """
    if node == "Executor" and context.committed.get(TOGETHER):
        return _play_calls(flow, context)
    try:
        with playing(context.cancelled):
            outcome = _with_approvers(
                flow, CircularFlow.play(flow, node, altered(context, reserved=flow.reserved))
            )
        return (
            outcome
            if node != "Controller" or isinstance(outcome, Interrupt | Renew)
            else with_long_replies_apart(outcome, context.step)
        )
    except BadReply as error:
        where = f"run {context.run_id}, step {context.step}"
        if not flow.tells_errors:
            raise CodeDoesNotFit(
                f"{where}: the code of {title(flow)} decided on a command that cannot be "
                f"carried out: {error}. Code does not read errors, so correct the code"
            ) from error
        bad = context.committed.get(BAD_REPLIES, 0) + 1
        if bad >= flow.max_bad_replies:
            raise FatalError(
                f"{where}: {bad} bad replies of the controller in a row; the last one: {error}"
            ) from error
        values = {**context.remembered, BAD_REPLIES: bad}
        summary = {"error": shown(str(error))}
        if node == "Executor":
            turn = Turn(decided_by(context.committed), told(error))
            coming = Advance("Controller", (turn,), values, ends_cycle=True, summary=summary)
            return continue_reply(flow, coming, context)
        turns = (*error.others, Turn(error.command, told(error)))
        return with_long_replies_apart(
            Advance("Controller", turns, values, ends_cycle=True, summary=summary), context.step
        )


def _with_approvers(flow: ControllerExecutorDefinition, outcome: Outcome) -> Outcome:
    """Return an outcome. If it asks for an approval, it also names the approvers.

    Approvers are the people who may give the approval. The outcome is returned unchanged if it asks
    for no approval, or if anyone may give it.
    """
    if (
        flow.approvers == "anyone"
        or not isinstance(outcome, Interrupt)
        or not isinstance(outcome.data, dict)
    ):
        return outcome
    about = outcome.data.get("approval")
    if not isinstance(about, dict):
        return outcome
    return replace(
        outcome, data={**outcome.data, "approval": {**about, "approvers": flow.approvers}}
    )


def play_call(flow: ControllerExecutorDefinition, context: RoundContext) -> Outcome:
    """Run the only round of a child run that carries out one call of its parent's reply.

    Raises:
        CodeDoesNotFit: the call names no valid command, and the controller does not read errors.
        FatalError: the command returned ``Renew``.
    """
    try:
        with playing(context.cancelled):
            outcome = CircularFlow.play(flow, "Executor", altered(context, reserved=flow.reserved))
    except BadReply as error:
        if not flow.tells_errors:
            raise CodeDoesNotFit(f"run {context.run_id}, step {context.step}: {error}") from error
        outcome = Advance("Controller", (Turn(decided_by(context.committed), told(error)),))
    if isinstance(outcome, Interrupt):
        return _with_approvers(flow, outcome)
    if isinstance(outcome, Renew):
        raise FatalError(
            f"run {context.run_id}, step {context.step}: expected the result of a command, got "
            "Renew; the run of one of several calls cannot be renewed"
        )
    return end_of_call(
        outcome,
        lambda name: not name.startswith("_") and name not in flow.reserved,
        flow.early_exit_key,
    )


def _play_calls(flow: ControllerExecutorDefinition, context: RoundContext) -> Outcome:
    """Start a child run for each of several calls of a reply, and wait for them.

    This is a round of the Executor. If the child runs cannot be started, the first call is carried
    out in this run (``_play_alone``).

    Raises:
        Parked: the child runs have not ended yet.
        ChildFailed: a call failed, and the controller does not read errors.
    """
    values = context.committed
    waiting = values["_waiting"][: values[TOGETHER]]
    calls = [data_of(decided_by(values)), *waiting]
    runs = [call_run(flow.name, call, context) for call in calls if "error" not in call]
    try:
        group = context.gather(runs, wait="settled", max_concurrency=flow.parallel_calls, name=WAIT)
    except InvalidChild as error:
        context.logger.warning(
            "run %s, step %d: the calls of this reply are carried out one after another, "
            "because they cannot be started as runs: %s",
            context.run_id,
            context.step,
            error,
        )
        return _play_alone(flow, context)
    return _join_calls(flow, calls, group, context)


def _play_alone(flow: ControllerExecutorDefinition, context: RoundContext) -> Outcome:
    """Carry out the first of several calls in this run, because no child runs can be started.

    The other calls are carried out in later rounds.
    """
    committed = {**context.committed, TOGETHER: 0}
    outcome = play_one(flow, "Executor", altered(context, committed=committed))
    if isinstance(outcome, Interrupt | Renew):
        return outcome
    budget = f"{COMMANDS}{context.journal.carried_out}"
    if budget in context.budgets:
        context.spend(**{budget: 1})
    return replace(outcome, values={TOGETHER: 0, **outcome.values})


def _join_calls(
    flow: ControllerExecutorDefinition,
    calls: Sequence[Mapping[str, Any]],
    ends: Iterable[Ended],
    context: RoundContext,
) -> Outcome:
    """Return the outcome of concurrent calls, with a turn for each call.

    Each call is charged to the budget of its command, if the command has a budget.

    Args:
        ends: the endings of the calls' child runs.
    """
    joined = join(calls, ends, partial(_observes, flow))
    for call_data in calls:
        budget = f"{COMMANDS}{call_data.get('name')}"
        if budget in context.budgets and "error" not in call_data:
            context.spend(**{budget: 1})
    waiting = context.committed["_waiting"][len(calls) - 1 :]
    turns, artifacts = fitted(joined.turns, waiting, context.step)
    summary = summary_of_calls(turns, joined.failed)
    values = {**context.remembered, **joined.values, TOGETHER: 0, "_waiting": waiting}
    if not joined.finish:
        coming = Advance("Controller", turns, values, True, summary, artifacts)
        return continue_reply(flow, coming, context)
    values |= {flow.early_exit_key: True, **joined.finish}
    state = {**context.committed, **values}
    return End(state.get("answer"), flow._output(state), turns, values, summary, artifacts)


def _observes(flow: ControllerExecutorDefinition, command: str) -> bool:
    """Return whether an exception of this command becomes an observation of the controller."""
    spec = flow.offered().get(command)
    return flow.tells_errors if spec is None else spec.is_observed(flow.tells_errors)
