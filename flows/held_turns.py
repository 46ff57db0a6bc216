"""The held turn: in a ring with nodes behind the Executor, a command's turn enters the history with the commit of the cycle's last node.

Until then a node may change what the controller will see (shorten it, redact it), and the history never has what it was before.
See docs/decisions/0031-a-turn-is-held-until-its-cycle-ends.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flows.context import History, RoundContext, altered
from flows.extras import FEEDBACK
from flows.outcomes import Advance, Command, End, Turn
from flows.results import bounded
from flows.several import command_of, data_of
from flows.summaries import digest, shown
from flows.values import canonical

#: Under this name a run keeps its held turn; None when the history has it.
HELD = "_held"


def hold(command: Command, observation: Any, artifacts: Mapping[str, str]) -> dict[str, Any]:
    """Return a turn as data to be held; ``artifacts`` has the whole of a long observation, under one name."""
    data = {"command": data_of(command), "observation": observation}
    return {**data, "artifact": next(iter(artifacts))} if artifacts else data


def with_held(context: RoundContext, held: Mapping[str, Any]) -> RoundContext:
    """Return the context of a round whose history ends with the held turn."""
    history = context.history
    length = len(history) + 1
    return altered(context, history=History(length, (turn_of(held),), lambda start, stop: history[start:stop]))


def turn_of(held: Mapping[str, Any]) -> Turn:
    """Return the turn that is held, with what a person said of it."""
    command = command_of(held["command"])
    assert command is not None
    if "feedback" in held:
        command = replace(command, extras={**command.extras, FEEDBACK: held["feedback"]})
    return Turn(command, held["observation"])


def amended(held: Mapping[str, Any], outcome: Advance | End, most: int, step: int) -> tuple[dict[str, Any], Advance | End]:
    """Return the held turn with what a node's ``outcome`` says of it, and the outcome without its ``observation``.

    An artifact that has the observation as it was is overwritten.
    """
    values, changed = dict(outcome.values), dict(held)
    artifacts: dict[str, str] = {}
    if "observation" in values:
        given = values.pop("observation")
        if given != held["observation"]:
            name = held.get("artifact") or f"{step}-{held['command']['name']}"
            changed["observation"], artifacts = bounded(given, most, name)
            if "artifact" in held and not artifacts:
                artifacts = {name: given if isinstance(given, str) else canonical(given)}
            if artifacts:
                changed["artifact"] = name
    feedback = values.get("human_feedback")
    if feedback not in (None, ""):
        changed["feedback"] = feedback
    return changed, replace(outcome, values=values, artifacts={**outcome.artifacts, **artifacts})


def kept_on(outcome: Advance, held: Mapping[str, Any], before: Mapping[str, Any]) -> Advance:
    """Return the outcome of a node that others of the cycle follow; the turn is written again only where it changed."""
    return outcome if held == before else replace(outcome, values={**outcome.values, HELD: dict(held)})


def released(outcome: Advance | End, held: Mapping[str, Any]) -> Advance | End:
    """Return the outcome with the held turn in front of its own; people see what was observed."""
    turn = turn_of(held)
    summary = {**outcome.summary, "observation": shown(turn.observation), "digest": digest(turn.observation)}
    values = {HELD: None, **outcome.values}
    return replace(outcome, turns=(turn, *outcome.turns), values=values, summary=summary)
