"""Held turns, for rings with nodes after the Executor.

In such a ring, the turn of a command is added to the history with the commit of the cycle's last
node. Until then a node may change the turn for the controller (shorten it, redact it). The history
never has the original turn. See
docs/internals/decisions/0031-a-turn-is-held-until-its-cycle-ends.md.
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
        observation: the result, perhaps cut.
        artifacts: the whole result by the name of its artifact, if the result was cut. Otherwise
            empty.
    """
    data = {"command": data_of(command), "observation": observation}
    return {**data, "artifact": next(iter(artifacts))} if artifacts else data


def with_held(context: RoundContext, held: Mapping[str, Any]) -> RoundContext:
    """Return the context with the held turn as the last turn of its history."""
    history = context.history
    changed = History(
        len(history) + 1,
        (turn_of(held),),
        lambda start, stop: history[start:stop],
        forgotten_of(history),
    )
    return altered(context, history=changed)


def turn_of(held: Mapping[str, Any]) -> Turn:
    """Convert the data of a held turn to a turn. A person's feedback is in the turn's extras."""
    command = command_of(held["command"])
    assert command is not None
    if "feedback" in held:
        command = replace(command, extras={**command.extras, FEEDBACK: held["feedback"]})
    return Turn(command, held["observation"])


def amended(
    held: Mapping[str, Any], outcome: Advance | End, most: int, step: int
) -> tuple[dict[str, Any], Advance | End]:
    """Apply a node's ``observation`` or feedback to the held turn.

    If an artifact has the original observation, the artifact is overwritten.

    Args:
        held: the data of the held turn.
        outcome: the outcome of the node.
        most: maximum characters of the observation in the history.
        step: the step of the round, for the name of a new artifact.

    Returns:
        The changed data of the held turn, and the node's outcome without ``observation``.
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
    """Return the outcome of a node that is not the last one of the cycle.

    The turn stays held. The outcome stores it again only if the node has changed it.

    Args:
        held: the data of the held turn after the node.
        before: the data of the held turn before the node.
    """
    return (
        outcome if held == before else replace(outcome, values={**outcome.values, HELD: dict(held)})
    )


def released(outcome: Advance | End, held: Mapping[str, Any]) -> Advance | End:
    """Return the outcome with the held turn, which is now added to the history.

    The held turn comes before the outcome's own turns. The summary shows its observation.
    """
    turn = turn_of(held)
    summary = {
        **outcome.summary,
        "observation": shown(turn.observation),
        "digest": digest(turn.observation),
    }
    values = {HELD: None, **outcome.values}
    return replace(outcome, turns=(turn, *outcome.turns), values=values, summary=summary)
