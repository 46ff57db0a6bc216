"""The whole tool calls of a committed round.

The round's event has only the beginning of long arguments and results. The run's history has them
whole.
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
    """A person's refusal of a workflow's call.

    The refused call itself is not in the run's history.

    Attributes:
        asked: The name under which the workflow asked for the approval.
        words: The person's reason. '' if the person gave none.
    """

    asked: str
    words: str


class ToolResults:
    """Finds the tool results of rounds in a run's history.

    Call ``of`` for the event of each round, in the order of the rounds.
    """

    def __init__(self) -> None:
        #: The position after the last turn that was found, where the next search begins.
        self._next = 0

    def of(
        self, data: Mapping[str, Any], turns: Sequence[Turn]
    ) -> list[ToolResult | CallRefused] | None:
        """Return the tool results and refused calls of a committed round.

        Other answers of people, waits of a workflow, and an agent's requests to its model are left
        out.

        Args:
            data: The data of the round's event ``committed``.
            turns: The turns of the run's history, oldest first.

        Returns:
            None if ``turns`` lacks the turns of the round.
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
    """Return the tool result in a round's event.

    The event may have only the beginning of the result. The arguments are None if the event has
    only their beginning. If the history has the result, ``ToolResults.of`` returns the whole.

    Returns:
        A list of one result. Empty if the event names no command, or a request to a model.
    """
    if not data.get("command") or _is_model_request(str(data["command"]), data):
        return []
    return [(str(data["command"]), arguments_of(data.get("args")), data.get("observation"))]


def _matching(data: Mapping[str, Any], turns: Sequence[Turn], place: int) -> Sequence[Turn]:
    """Return the turns at a position if they match a round.

    Otherwise the result is empty. ``data`` is the data of the round's event.
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
    """Return the tool result or the refused call in a turn.

    Args:
        data: The data of the round's event.

    Returns:
        None if the turn is no tool call: a model's request, an answer of a person, or a wait.
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
    """Return whether a step is the request of another library's agent to its model.

    Args:
        step: The name of the step.
        data: The data of the round's event.
    """
    return "did" in data and "model" in data and MODEL_STEP.fullmatch(step) is not None


def _result(turn: Turn, data: Mapping[str, Any]) -> Any:
    """Return the result in a turn's observation.

    The observation of a workflow is a journal entry, which contains the result or the error. For a
    large result, it is the beginning in ``data``, the data of the round's event.
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
    """Return the JSON object in a text. None if the text is no complete JSON object."""
    try:
        args = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return args if isinstance(args, dict) else None
