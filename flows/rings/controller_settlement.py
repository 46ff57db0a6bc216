"""The outcome of a round of the Controller or the Executor, and the next call of the same reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perdure.flows.core.errors import FatalError
from perdure.flows.core.names import BAD_REPLIES, ONLY
from perdure.flows.core.outcomes import Advance, Command, End, Turn
from perdure.flows.core.reply_extras import public
from perdure.flows.core.summaries import bounded, digest, summary_of
from perdure.flows.rings.call_queue import (
    QueuedCall,
    decided_by,
    fault_of,
    refuse_finish,
    take,
    values_of_call,
)
from perdure.flows.rings.circular import CircularFlow, Node
from perdure.flows.rings.definition import ControllerExecutorDefinition
from perdure.flows.rings.held_turn import HELD, hold
from perdure.flows.rings.parallel_calls import (
    TOGETHER,
    budget_left,
    count_together,
    summary_of_decision,
)
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import title
from perdure.flows.rounds.messages_to_run import put_off


def settle_round(
    flow: ControllerExecutorDefinition,
    place: Node,
    context: RoundContext,
    output: Mapping[str, Any],
) -> Advance | End:
    """Return the outcome of a node's round, with its turn, summary and values.

    The Executor's round adds a turn to the history. A good reply resets the count of bad replies.
    The summary is for people who watch the run.

    Args:
        place: the node.
        output: the values that the node returned.

    Raises:
        FatalError: the node's values cannot be used.
    """
    values = dict(output)
    if place.name == "Controller":
        return _settle_decision(flow, place, context, values)
    if place.name == "Executor":
        return _settle_command(flow, place, context, values)
    if "observation" in values and context.committed.get(HELD) is None:
        _check_observes(flow, place, context)
        del values["observation"]
    return CircularFlow.settle(flow, place, context, values)


def _settle_decision(
    flow: ControllerExecutorDefinition, place: Node, context: RoundContext, values: dict[str, Any]
) -> Advance | End:
    if context.committed.get(BAD_REPLIES):
        values[BAD_REPLIES] = 0
    if "_turn" in values:
        turn = values.pop("_turn")
        summary = summary_of(turn.command or Command(""), observation=turn.observation)
        remembered = {**context.remembered, **values}
        return Advance("Controller", (turn,), remembered, ends_cycle=True, summary=summary)
    refused: tuple[Turn, ...] = values.pop("_refused", ())
    # An empty value is written only to clear that of an earlier reply.
    for name in ("_waiting", "_call"):
        if not values.get(name) and not context.committed.get(name):
            values.pop(name, None)
    outcome = CircularFlow.settle(flow, place, context, values)
    if refused:
        outcome = replace(outcome, turns=refused)
    if isinstance(outcome, End):
        finish = Command("finish", extras=values.get("_said", {}))
        return replace(outcome, summary=summary_of(finish, answer=outcome.answer))
    _check_decided(flow, values)
    outcome = _decided_together(flow, outcome, context)
    if outcome.values.get(TOGETHER):
        waiting = outcome.values["_waiting"][: outcome.values[TOGETHER]]
        return replace(outcome, summary=summary_of_decision(decided_by(values), waiting))
    return replace(outcome, summary=summary_of(decided_by(values)))


def _settle_command(
    flow: ControllerExecutorDefinition, place: Node, context: RoundContext, values: dict[str, Any]
) -> Advance | End:
    command = decided_by(context.committed)
    result = values.pop("observation", None)
    waiting = context.committed.get("_waiting")
    observation, artifacts = bounded(
        result,
        flow.max_result,
        f"{context.step}-{command.name}",
        context.run_id if context.committed.get(ONLY) else "",
    )
    # Of an observation that was cut, ``continue_reply`` cannot tell the fault. Any other may become
    # a good result by the nodes that follow.
    if artifacts and waiting and flow.tells_errors and fault_of(result) is not None:
        values["_waiting"] = list(refuse_finish(waiting, (Turn(command, result),)))
    outcome = CircularFlow.settle(flow, place, context, values)
    bare = replace(command, extras={}) if command.extras else command
    # Nodes that may change the observation follow in this cycle.
    if isinstance(outcome, Advance) and not outcome.ends_cycle:
        held = {**outcome.values, HELD: hold(command, observation, artifacts)}
        return replace(outcome, values=held, summary=summary_of(bare), artifacts=artifacts)
    summary = summary_of(bare, observation=observation, digest=digest(observation))
    outcome = replace(
        outcome, turns=(Turn(command, observation),), summary=summary, artifacts=artifacts
    )
    return outcome if isinstance(outcome, End) else continue_reply(flow, outcome, context)


def _decided_together(
    flow: ControllerExecutorDefinition, outcome: Advance, context: RoundContext
) -> Advance:
    """Return a decision's outcome with the number of calls that run concurrently (``TOGETHER``).

    These are waiting calls that are carried out at the same time as the decided command. If the
    number is 0 and no earlier number must be cleared, the outcome is returned unchanged.
    """
    values = outcome.values
    waiting = values.get("_waiting")
    together = (
        _count_together(flow, decided_by(values), waiting, context)
        if flow.parallel_calls > 1 and waiting
        else 0
    )
    if not together and not context.committed.get(TOGETHER):
        return outcome
    return replace(outcome, values={**values, TOGETHER: together})


def _count_together(
    flow: ControllerExecutorDefinition,
    first: Command,
    waiting: Sequence[Mapping[str, Any]],
    context: RoundContext,
) -> int:
    """Return how many waiting calls of a reply run at the same time as the reply's first call.

    The first call is not counted, so 0 means that it runs alone. The limits are the budgets of the
    commands, their ``max_concurrency``, and those of ``count_together``.

    Args:
        waiting: the calls of the reply after the first.
    """
    offered = flow.offered()

    def most(name: str) -> float:
        if name not in offered:
            return 0  # ``reply`` answers a question to this run, so this run carries it out.
        own = offered[name].max_concurrency
        left = budget_left(context, name)
        return left if own is None else min(left, own)

    return count_together(first, waiting, most)


def _check_observes(flow: ControllerExecutorDefinition, place: Node, context: RoundContext) -> None:
    """Raise FatalError if ``place``, a node that returned ``observation``, precedes the Executor.

    The controller could never see this observation. If the node is after the Executor, a worker of
    an older release has already added the turn to the history, and a warning is logged.
    """
    names = [node.name for node in flow.topology]
    if names.index(place.name) < names.index("Executor"):
        raise FatalError(
            f"{title(flow)}: node {place.name} returned 'observation'; "
            "only nodes after the Executor, in the same cycle, can change the observation. "
            "Move the node there, or return another name"
        )
    # A worker of an older release has added the turn to the history, where it cannot change.
    context.logger.warning(
        "run %s, step %d: an older worker has already added the turn to the history, "
        "so node %s cannot change its observation; from the next cycle on it can",
        context.run_id,
        context.step,
        place.name,
    )


def _check_decided(flow: ControllerExecutorDefinition, values: Mapping[str, Any]) -> None:
    """Raise FatalError if the Controller's output interface removed the Executor's input.

    The Executor needs ``command`` and ``command_args``.
    """
    missing = [name for name in ("command", "command_args") if name not in values]
    if missing:
        left = ", ".join(name for name in values if not name.startswith("_")) or "nothing"
        raise FatalError(
            f"{title(flow)}: the output interface of node Controller leaves no "
            f"{' and no '.join(missing)}, which the Executor needs; it leaves: {left}. "
            "Rename other names, or copy these instead"
        )


def continue_reply(
    flow: ControllerExecutorDefinition, coming: Advance, context: RoundContext
) -> Advance | End:
    """Return the outcome that continues with the next waiting call of a reply.

    Args:
        coming: the outcome of the round, without regard to waiting calls.

    Returns:
        ``coming`` with the turns of invalid calls if no valid call waits. An ``End`` if the next
        call is ``finish`` and the calls before it succeeded. Otherwise an advance to the Executor
        with the next call as its command.
    """
    values = {**context.committed, **coming.values}
    waiting = values.get("_waiting")
    if not waiting:
        return coming
    if flow.tells_errors:
        waiting = refuse_finish(waiting, coming.turns)
    taken = take(waiting)
    turns = (*coming.turns, *taken.refused)
    if taken.command is None:
        return replace(coming, turns=turns, values={**coming.values, "_waiting": []})
    left = {**coming.values, "_waiting": list(taken.waiting)}
    if taken.command.name == "finish":
        answer = {flow.early_exit_key: True, **taken.command.args, "status": "finished"}
        state = {**values, **left, **answer}
        end = End(
            state.get("answer"),
            flow._output(state),
            turns,
            {**left, **answer},
            coming.summary,
            coming.artifacts,
        )
        advance = replace(coming, turns=turns, values={**coming.values, "_waiting": []})
        return put_off(end, advance, taken.command if flow.tells_errors else None, values)
    decided = {
        "command": taken.command.name,
        "command_args": dict(taken.command.args),
        "_said": dict(taken.command.extras),
    }
    decided |= values_of_call(taken.command)
    return _decided_together(
        flow,
        replace(coming, node="Executor", turns=turns, values={**left, **decided}, ends_cycle=False),
        context,
    )


def output_of_round(flow: ControllerExecutorDefinition, place: Node, result: Any) -> dict[str, Any]:
    """Convert a node's return value to values for the run.

    A command becomes the values ``command`` and ``command_args``. The command ``finish`` becomes an
    early exit: the value True under ``early_exit_key``, with the arguments of ``finish`` and the
    status ``finished``. The extras of a reply are its fields other than the command. They become
    the value ``_said``. Of ``finish``, only the public extras do (``reply_extras.public``).
    """
    if isinstance(result, Turn):
        return {"_turn": result}
    if isinstance(result, QueuedCall):
        assert result.command is not None  # ``decision`` raises BadReply without one.
        return {
            **flow.output_of(place, result.command),
            "_refused": result.refused,
            "_waiting": list(result.waiting),
        }
    if isinstance(result, Command) and result.name == "finish":
        return {
            flow.early_exit_key: True,
            **result.args,
            "status": "finished",
            "_said": public(result.extras),
            **(values_of_call(result) if result.call else {}),
        }
    output = CircularFlow.output_of(flow, place, result)
    return (
        {**output, "_said": dict(result.extras), **values_of_call(result)}
        if isinstance(result, Command)
        else output
    )
