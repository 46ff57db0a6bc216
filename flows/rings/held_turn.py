"""Held turns, for rings with nodes after the Executor.

There a command's turn enters the history with the commit of the cycle's last node. Until then a
node may change it for the controller (shorten it, redact it). The history never holds the original.
See docs/internals/decisions/0031-a-turn-is-held-until-its-cycle-ends.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perdure.flows.core.history import History, forgotten_of
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Advance, Command, End, Turn
from perdure.flows.core.reply_extras import FEEDBACK
from perdure.flows.core.summaries import bounded, digest, shown
from perdure.flows.rings.call_queue import command_of, data_of
from perdure.flows.rounds.context import RoundContext, altered

#: The value that stores a run's held turn. It is None once the history has the turn.
HELD = "_held"


def hold(command: Command, observation: Any, artifacts: Mapping[str, str]) -> dict[str, Any]:
    """Convert a command and its result to the data of a held turn.

    Args:
        artifacts: the whole of a long observation, under one name; else empty.
    """
    data = {"command": data_of(command), "observation": observation}
    return {**data, "artifact": next(iter(artifacts))} if artifacts else data


def with_held(context: RoundContext, held: Mapping[str, Any]) -> RoundContext:
    """Return the context with the held turn last in its history."""
    history = context.history
    changed = History(
        len(history) + 1,
        (turn_of(held),),
        lambda start, stop: history[start:stop],
        forgotten_of(history),
    )
    return altered(context, history=changed)


def turn_of(held: Mapping[str, Any]) -> Turn:
    """Convert the data of a held turn to a turn, with a person's feedback if there is any."""
    command = command_of(held["command"])
    assert command is not None
    if "feedback" in held:
        command = replace(command, extras={**command.extras, FEEDBACK: held["feedback"]})
    return Turn(command, held["observation"])


def amended(
    held: Mapping[str, Any], outcome: Advance | End, most: int, step: int
) -> tuple[dict[str, Any], Advance | End]:
    """Apply a node's ``observation`` or feedback to the held turn.

    An artifact that has the original observation is overwritten.

    Args:
        most: maximum characters of the observation in the history.

    Returns:
        The changed turn, and the node's outcome without ``observation``.
    """
    values, changed = dict(outcome.values), dict(held)
    artifacts: dict[str, str] = {}
    if "observation" in values:
        observation = values.pop("observation")
        if observation != held["observation"]:
            name = held.get("artifact") or f"{step}-{held['command']['name']}"
            changed["observation"], artifacts = bounded(observation, most, name)
            if "artifact" in held and not artifacts:
                artifacts = {
                    name: observation if isinstance(observation, str) else canonical(observation)
                }
            if artifacts:
                changed["artifact"] = name
    feedback = values.get("human_feedback")
    if feedback not in (None, ""):
        changed["feedback"] = feedback
    return changed, replace(outcome, values=values, artifacts={**outcome.artifacts, **artifacts})


def kept_on(outcome: Advance, held: Mapping[str, Any], before: Mapping[str, Any]) -> Advance:
    """Return the outcome of a node while the turn stays held.

    The node is not the last one of the cycle. The outcome stores the held turn again only if the
    turn has changed.

    Args:
        held: the data of the held turn after the node.
        before: the data of the held turn before the node.
    """
    return (
        outcome if held == before else replace(outcome, values={**outcome.values, HELD: dict(held)})
    )


def released(outcome: Advance | End, held: Mapping[str, Any]) -> Advance | End:
    """Return an outcome that adds the held turn to the history.

    The held turn comes before the outcome's own turns. The summary shows the observation.
    """
    turn = turn_of(held)
    summary = {
        **outcome.summary,
        "observation": shown(turn.observation),
        "digest": digest(turn.observation),
    }
    values = {HELD: None, **outcome.values}
    return replace(outcome, turns=(turn, *outcome.turns), values=values, summary=summary)
