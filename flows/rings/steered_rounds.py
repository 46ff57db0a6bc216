"""Rounds of a run that has messages from people, or a held last turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perdure.flows.core.names import BAD_REPLIES, ONLY, OPEN_ASKS
from perdure.flows.core.outcomes import Advance, Command, End, Interrupt, Outcome, Renew
from perdure.flows.rings.call_rounds import play_call, play_one
from perdure.flows.rings.controller_settlement import continue_reply
from perdure.flows.rings.definition import ControllerExecutorDefinition
from perdure.flows.rings.held_turn import HELD, amended, kept_on, released, turn_of, with_held
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.messages_to_run import (
    PUT_OFF,
    after_replies,
    hear,
    put_off,
    with_heard,
    with_values,
    without_remarks,
)


def hear_and_play(flow: ControllerExecutorDefinition, context: RoundContext) -> Outcome:
    """Run the Controller's round, with people's messages in its history.

    If the round would end the run, but a message arrives after this round has read the messages,
    the run goes on instead.
    """
    heard, hearing = hear(context, flow.max_result)
    outcome = play_held(flow, "Controller", seen_by(flow, hearing))
    if isinstance(outcome, Interrupt | Renew):
        return outcome
    replied = after_replies(hearing)
    if context.committed.get(PUT_OFF) and not isinstance(outcome, End):
        replied[PUT_OFF] = 0
    outcome = with_heard(with_values(outcome, replied), heard)
    if isinstance(outcome, Advance):
        return outcome
    values = outcome.values
    kept = {
        name: values[name] for name in (*heard.values, OPEN_ASKS, BAD_REPLIES) if name in values
    }
    advance = Advance("Controller", outcome.turns, kept, artifacts=outcome.artifacts)
    finish = _finish_of(flow, outcome) if flow.tells_errors else None
    return put_off(outcome, advance, finish, context.committed)


def _finish_of(flow: ControllerExecutorDefinition, end: End) -> Command:
    """Return the ``finish`` command that ended the run."""
    names = [name for name in flow.finish.input_args if name in end.values]
    call_id, part = end.values.get("_call") or ("", 0)
    args = {name: end.values[name] for name in names}
    return Command("finish", args, end.values.get("_said", {}), call_id, part)


def seen_by(flow: ControllerExecutorDefinition, context: RoundContext) -> RoundContext:
    """Return a round's context. If the controller reads no errors, people's messages are left out.

    In this case code decides. It counts its decisions by the length of the history, which people's
    messages would change.
    """
    return context if flow.tells_errors else without_remarks(context)


def play_held(flow: ControllerExecutorDefinition, node: str, context: RoundContext) -> Outcome:
    """Run a round. If the run has a held turn, the round sees the turn and may change it."""
    if context.committed.get(ONLY):
        return play_call(flow, context)
    held = context.committed.get(HELD)
    if held is None:
        return play_one(flow, node, context)
    outcome = play_one(flow, node, with_held(context, held))
    if isinstance(outcome, Renew):
        return replace(outcome, turns=(turn_of(held), *outcome.turns))
    return (
        outcome
        if isinstance(outcome, Interrupt)
        else _with_held_turn(flow, node, outcome, held, context)
    )


def _with_held_turn(
    flow: ControllerExecutorDefinition,
    node: str,
    outcome: Advance | End,
    held: Mapping[str, Any],
    context: RoundContext,
) -> Advance | End:
    """Return an outcome that stores the held turn, or adds it to the history.

    The held turn is the turn of the last command. The last node of the cycle adds it to the
    history.

    Args:
        outcome: the outcome of the node.
        held: the data of the held turn.
    """
    # It is held here only if a worker of an older release played the nodes in between.
    if node in ("Controller", "Executor"):
        return released(outcome, held)
    changed, outcome = amended(held, outcome, flow.max_result, context.step)
    if isinstance(outcome, Advance) and not outcome.ends_cycle:
        return kept_on(outcome, changed, held)
    outcome = released(outcome, changed)
    return outcome if isinstance(outcome, End) else continue_reply(flow, outcome, context)
