"""The queue of the calls in one reply of a controller.

The first valid call is the decision of the round. The other calls wait in the run's values. Each
call becomes a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.flows.commands.replies import MOST_CALLS
from perdure.flows.core.errors import BadReply
from perdure.flows.core.outcomes import Command, Turn
from perdure.flows.core.summaries import safe_text
from perdure.flows.rings.branching_flow import told


@dataclass(frozen=True, slots=True)
class QueuedCall:
    """The next call of a reply.

    Attributes:
        command: the command to carry out (or ``finish``). None if no call is left.
        refused: a turn for each invalid call before ``command``, with the call's error as
            observation.
        waiting: the calls that follow, as JSON data.
    """

    command: Command | None
    refused: tuple[Turn, ...] = ()
    waiting: tuple[Mapping[str, Any], ...] = ()


def queued(reply: Sequence[Any], check: Callable[[Any], Command]) -> list[Mapping[str, Any]]:
    """Convert a reply's calls to JSON data, in order, so that they can be stored.

    Args:
        reply: the calls.
        check: returns the command of a call, or raises BadReply. The data of the call then has the
            error. So has the data of a call beyond the first ``MOST_CALLS``, and of
            a ``finish`` behind a call with an error.
    """
    return list(refuse_finish([_call(item, check, place) for place, item in enumerate(reply)], ()))


def take(waiting: Sequence[Mapping[str, Any]]) -> QueuedCall:
    """Take the next valid call from a reply's waiting calls.

    Returns:
        The call, the invalid calls before it, and the calls that still wait.
    """
    refused: list[Turn] = []
    for place, call in enumerate(waiting):
        command = command_of(call)
        if "error" not in call:
            return QueuedCall(command, tuple(refused), tuple(waiting[place + 1 :]))
        refused.append(Turn(command, told(BadReply(call["error"]))))
    return QueuedCall(None, tuple(refused))


def _call(item: Any, check: Callable[[Any], Command], place: int) -> Mapping[str, Any]:
    try:
        if isinstance(item, BadReply):
            raise item
        if place >= MOST_CALLS:
            raise BadReply(
                f"a reply may hold {MOST_CALLS} calls; this call exceeds the limit",
                item if isinstance(item, Command) else None,
            )
        return data_of(check(item))
    except BadReply as error:
        return {
            **(data_of(error.command) if error.command else {"part": place}),
            "error": str(error),
        }


#: What became of a call that did not succeed, by the key of its observation, with the other keys
#: that the observation may have.
_FAULTS = {
    "error": ("failed", {"run"}),
    "refused": ("was refused", {"by"}),
    "in_doubt": ("is in doubt", {"idempotency_key"}),
}
_AGAIN = "then go on, or call finish again with an answer that fits"
_BEHIND = "not carried out: this call stands behind finish in its reply"


def fault_of(observation: Any) -> str | None:
    """Return what became of a call that did not succeed, such as ``was refused``.

    Returns:
        None if the observation is the result of a call that succeeded.
    """
    if not isinstance(observation, Mapping):
        return None
    for key, (fault, others) in _FAULTS.items():
        words = observation.get(key)
        # A command may itself return such a key, with another value if all is well. An error may be
        # any JSON, and a person may say that a call is in doubt without further words.
        is_fault = (
            words if key == "error" else isinstance(words, str) and (words or key == "in_doubt")
        )
        if is_fault and observation.keys() <= {key, *others}:
            return fault
    return None


def refuse_finish(
    waiting: Sequence[Mapping[str, Any]], earlier: Iterable[Turn]
) -> Sequence[Mapping[str, Any]]:
    """Refuse a waiting ``finish`` if a call before it in the same reply did not succeed.

    The controller wrote its answer before it knew. The calls behind ``finish`` are refused, too.

    Args:
        waiting: the calls that follow, as JSON data.
        earlier: turns of earlier calls of the reply, with their whole observations.
    """
    faults = ((turn.command, fault_of(turn.observation)) for turn in earlier)
    why = next((f"{_title(call)} {fault}" for call, fault in faults if fault is not None), None)
    for place, data in enumerate(waiting):
        is_finish = data.get("name") == "finish"
        if "error" in data:
            # Of two calls of finish, the second corrects the first.
            if not is_finish:
                why = why or f"{_title(command_of(data))} cannot be carried out"
        elif is_finish:
            if why is None:
                break
            error = f"the run has not ended, because {why}; read its result, {_AGAIN}"
            behind = [{"error": _BEHIND, **each} for each in waiting[place + 1 :]]
            return [*waiting[:place], {**data, "error": error}, *behind]
    return waiting


def _title(command: Command | None) -> str:
    return "a call" if command is None else f"the call of {safe_text(command.name, 100)!r}"


def data_of(command: Command) -> dict[str, Any]:
    """Convert a command to JSON data. ``command_of`` converts the data back."""
    data = {
        "name": command.name,
        "args": dict(command.args),
        "extras": dict(command.extras),
        "call": command.call,
        "part": command.part,
    }
    return {name: value for name, value in data.items() if value or name == "name"}


def command_of(call: Mapping[str, Any]) -> Command | None:
    """Convert the data of a call to a command.

    None if the call could not be read as a command.
    """
    if "name" not in call:
        return None
    return Command(
        call["name"],
        call.get("args", {}),
        call.get("extras", {}),
        call.get("call", ""),
        call.get("part", 0),
    )


def decided_by(values: Mapping[str, Any]) -> Command:
    """Return the Controller's decision from the values of the run."""
    call_id, part = values.get("_call") or ("", 0)
    return Command(
        values["command"], values["command_args"], values.get("_said", {}), call_id, part
    )


def values_of_call(command: Command) -> dict[str, Any]:
    """Return the run's value ``_call``: id and position of the tool call that asks for a command.

    The value is None if the command has neither.
    """
    return {"_call": [command.call, command.part] if command.call or command.part else None}
