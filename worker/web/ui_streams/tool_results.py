"""The tools that a committed round has called, with whole arguments and results.

An event has only the beginning of them. The history has all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.flows.outcomes import Turn
from perdure.flows.summaries import digest, shown

#: Beginning of the observation of calls that were carried out at once.
CALLS = re.compile(r"(\d+) calls\b")

#: A tool's name, its arguments (None: unknown) and its result.
ToolResult = tuple[str, Mapping[str, Any] | None, Any]


class ToolResults:
    """Finds the turns of a run's history that an event tells of."""

    def __init__(self) -> None:
        #: The turn behind the last that was found.
        self._next = 0

    def of(self, data: Mapping[str, Any], turns: Sequence[Turn]) -> list[ToolResult] | None:
        """Return the tools that a committed round has called, or None if the history lacks them.

        Args:
            data: of the event ``committed``.
            turns: the run's history.
        """
        for start in (self._next, 0):
            for place in range(start, len(turns)):
                found = _matching(data, turns, place)
                if found:
                    self._next = place + len(found)
                    return [
                        (turn.command.name, turn.command.args, _result(turn, data))
                        for turn in found
                        if turn.command is not None and turn.command.name
                    ]
        return None


def told_by_event(data: Mapping[str, Any]) -> list[ToolResult]:
    """Return the tool that a committed round has called, as far as its event tells."""
    if not data.get("command"):
        return []
    return [(str(data["command"]), arguments_of(data.get("args")), data.get("observation"))]


def _matching(data: Mapping[str, Any], turns: Sequence[Turn], place: int) -> Sequence[Turn]:
    """Return the turns from a place on, if they are those of an event."""
    steps = data.get("did")
    if isinstance(steps, list):
        found = turns[place : place + len(steps)]
        names = [None if turn.command is None else turn.command.name for turn in found]
        return found if names == steps else []
    if "command" not in data:
        several = CALLS.match(str(data.get("observation", "")))
        found = turns[place : place + int(several[1])] if several else []
        told = [turn.observation for turn in found]
        return found if found and digest(told) == data.get("digest") else []
    turn = turns[place]
    if turn.command is None or turn.command.name != data["command"]:
        return []
    if shown(dict(turn.command.args)) != data.get("args"):
        return []
    is_same = (
        digest(turn.observation) == data["digest"]
        if "digest" in data
        else shown(turn.observation) == data.get("observation")
    )
    return [turn] if is_same else []


def _result(turn: Turn, data: Mapping[str, Any]) -> Any:
    """Return the result that a turn has. That of a workflow's step is within its observation."""
    match turn.observation:
        case {"artifact": _} if "did" in data:
            return data.get("observation")
        case {"error": {"type": error, "message": message}} if "did" in data:
            return {"error": f"{error}: {message}"}
        case {"result": result} if "did" in data:
            return result
    return turn.observation


def arguments_of(text: Any) -> Mapping[str, Any] | None:
    """Return the arguments that a text has as JSON, or None if it is cut or is no JSON object."""
    try:
        args = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return args if isinstance(args, dict) else None
