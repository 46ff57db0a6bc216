"""Several: the calls of one reply. The first is decided, the others wait in the run's values, and each gets its turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.branching import told
from flows.errors import BadReply
from flows.outcomes import Command, Turn

#: Calls of one reply that are taken; a model that asks for more is told so.
MOST_CALLS = 64


@dataclass(frozen=True, slots=True)
class Taken:
    """What comes next of a reply.

    Attributes:
        command: to be carried out (or ``finish``); None where nothing is left.
        refused: the turns of calls before it that cannot be carried out, each answered with what is wrong.
        waiting: what follows, as JSON data.
    """

    command: Command | None
    refused: tuple[Turn, ...] = ()
    waiting: tuple[Mapping[str, Any], ...] = ()


def queued(reply: Sequence[Any], check: Callable[[Any], Command]) -> list[Mapping[str, Any]]:
    """The calls of a reply as JSON data, in order; those that ``check`` refuses (BadReply) with what is wrong with them."""
    return [_call(item, check, place) for place, item in enumerate(reply)]


def take(waiting: Sequence[Mapping[str, Any]]) -> Taken:
    """The next call that can be carried out."""
    refused: list[Turn] = []
    for place, call in enumerate(waiting):
        command = command_of(call)
        if "error" not in call:
            return Taken(command, tuple(refused), tuple(waiting[place + 1 :]))
        refused.append(Turn(command, told(BadReply(call["error"]))))
    return Taken(None, tuple(refused))


def _call(item: Any, check: Callable[[Any], Command], place: int) -> Mapping[str, Any]:
    try:
        if isinstance(item, BadReply):
            raise item
        if place >= MOST_CALLS:
            raise BadReply(f"a reply may hold {MOST_CALLS} calls; this one comes after them", item if isinstance(item, Command) else None)
        return data_of(check(item))
    except BadReply as error:
        return {**(data_of(error.command) if error.command else {"part": place}), "error": str(error)}


def data_of(command: Command) -> dict[str, Any]:
    """Return a command as JSON data."""
    data = {"name": command.name, "args": dict(command.args), "extras": dict(command.extras), "call": command.call, "part": command.part}
    return {name: value for name, value in data.items() if value or name == "name"}


def command_of(call: Mapping[str, Any]) -> Command | None:
    """Return the command of such data; None where a call was none."""
    if "name" not in call:
        return None
    return Command(call["name"], call.get("args", {}), call.get("extras", {}), call.get("call", ""), call.get("part", 0))
