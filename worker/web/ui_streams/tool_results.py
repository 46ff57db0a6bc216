"""The tools that a committed round has called, with whole arguments and results.

An event has only the beginning of both. The run's history has all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perdure.flows.commands.approval import ApprovalRefused, read_answer
from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.outcomes import Turn
from perdure.flows.core.summaries import digest, shown

#: Kinds of a workflow's journal entries that are no call of a tool: answers, waits, and marks
#: (``now``, ``patched``, ``listen``).
NO_CALLS = frozenset({"ask", "sleep", "signal", "now", "patched", "listen"})
#: Keys that an observation may have if it is an entry of a workflow's journal.
ENTRY = frozenset({"kind", "of", "result", "error", "artifact"})
#: Names of steps in which the agent of another library asks its model. The model's reply is text,
#: not a tool's result.
MODEL_STEP = re.compile(r"(?:.+\.)?model(?:\.\d+)?")
#: Beginning of the observation of several calls that were carried out concurrently.
CALLS = re.compile(r"(\d+) calls\b")

#: A tool's name, its arguments (None: unknown) and its result.
ToolResult = tuple[str, Mapping[str, Any] | None, Any]


class CallRefused(NamedTuple):
    """A person's refusal of a call about which a workflow has asked.

    The refused call itself is not in the run's history.

    Attributes:
        asked: the name under which the workflow has asked.
        words: the reason. Empty if the person gave none.
    """

    asked: str
    words: str


class ToolResults:
    """Finds the turns in a run's history that belong to an event."""

    def __init__(self) -> None:
        #: The position after the last turn that was found, where the next search begins.
        self._next = 0

    def of(
        self, data: Mapping[str, Any], turns: Sequence[Turn]
    ) -> list[ToolResult | CallRefused] | None:
        """Return the tool results of a committed round, or None if the history lacks its turns.

        Answers of people, waits of a workflow and an agent's requests to its model are left out.
        Refused calls are included.

        Args:
            data: data of the event ``committed``.
            turns: the run's history.
        """
        for start in (self._next, 0):
            for place in range(start, len(turns)):
                found = _matching(data, turns, place)
                if found:
                    self._next = place + len(found)
                    told = (_told(turn, data) for turn in found)
                    return [each for each in told if each is not None]
        return None


def told_by_event(data: Mapping[str, Any]) -> list[ToolResult]:
    """Return a round's tool result as its event has it. Empty if the round called no tool.

    The event may have only the beginning of the arguments and the result.
    """
    if not data.get("command") or _is_model_request(str(data["command"]), data):
        return []
    return [(str(data["command"]), arguments_of(data.get("args")), data.get("observation"))]


def _matching(data: Mapping[str, Any], turns: Sequence[Turn], place: int) -> Sequence[Turn]:
    """Return the turns from position ``place`` on if they belong to an event, else none.

    ``data`` is that of the event.
    """
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


def _told(turn: Turn, data: Mapping[str, Any]) -> ToolResult | CallRefused | None:
    """Return a turn's tool result or refused call, or None if it has neither.

    ``data`` is that of the round's event.
    """
    if turn.command is None or not turn.command.name or _is_model_request(turn.command.name, data):
        return None
    entry = turn.observation
    is_entry = "did" in data and isinstance(entry, Mapping) and entry.keys() <= ENTRY
    if not is_entry or entry.get("kind") not in NO_CALLS:
        return turn.command.name, turn.command.args, _result(turn, data)
    try:
        answer = read_answer(entry.get("result")) if entry["kind"] == "ask" else None
    except InvalidInput:
        return None  # It answers a question that is no approval.
    if isinstance(answer, ApprovalRefused):
        return CallRefused(turn.command.name, answer.words)
    return None


def _is_model_request(step: str, data: Mapping[str, Any]) -> bool:
    """Return whether a step of a round is an agent's request to its model."""
    return "did" in data and "model" in data and MODEL_STEP.fullmatch(step) is not None


def _result(turn: Turn, data: Mapping[str, Any]) -> Any:
    """Return the result in a turn's observation.

    A workflow's observation is a journal entry, which contains the result or the error.
    """
    match turn.observation:
        case {"artifact": _} if "did" in data:
            return data.get("observation")
        case {"error": {"type": error, "message": message}} if "did" in data:
            return {"error": f"{error}: {message}"}
        case {"result": result} if "did" in data:
            return result
    return turn.observation


def arguments_of(text: Any) -> Mapping[str, Any] | None:
    """Return the JSON object in a text. None if the text is cut or is no JSON object."""
    try:
        args = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return args if isinstance(args, dict) else None
