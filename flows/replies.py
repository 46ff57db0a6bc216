"""A controller's reply, in any of the shapes it may have, read as one decision."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from flows.errors import BadReply, UnstorableValue
from flows.outcomes import Command, Finish, Interrupt
from flows.summaries import safe_text
from flows.values import storable

#: Possessive: what a model writes must not make the search take longer than its text is long.
_FENCED = re.compile(r"```[A-Za-z]*+(.*)```", re.DOTALL)
#: Where an object with a key may begin.
_OBJECT = re.compile(r"\{\s*+\"")
#: Braces amid other text that may turn out to be none of JSON's.
MOST_LOOKS = 100
#: Characters of a reply that are read; a run keeps less than that of one round.
MAX_LENGTH = 1024 * 1024
#: The named value that counts bad replies in a row; a retry of the run sets it to 0.
BAD_REPLIES = "_bad_replies"
_FORMAT = 'expected a JSON object like {"thought": "...", "command": "name", "command_args": {...}}'


def read_reply(reply: Any) -> Command | Finish | Interrupt:
    """Read what ``decide`` returned.

    ``Command``, ``Finish`` and ``Interrupt`` are taken as they are. A mapping, or JSON text of one (also inside a
    fence of three backticks, or amid other text: then the last with the key ``command``), needs ``command`` and
    ``command_args`` (null: no arguments); all else it says (thought, reasoning, plan, criticism, speak) is kept in ``Command.extras``.

    Raises:
        BadReply: it is none of these, or its arguments are not JSON.
    """
    if isinstance(reply, Finish | Interrupt):
        return reply
    if isinstance(reply, str):
        reply = _parse(reply)
    if isinstance(reply, Mapping):
        reply = _from_mapping(reply)
    if not isinstance(reply, Command):
        raise BadReply(f"the reply is a {type(reply).__name__}; {_FORMAT}")
    if not isinstance(reply.name, str):
        raise BadReply(f"the command's name is {_excerpt(reply.name)}; expected text")
    try:
        name = storable(reply.name, "the command's name")
        if not isinstance(reply.args, Mapping):
            raise BadReply(f"the arguments of command {name!r} are {_excerpt(reply.args)}; expected an object of names and values")
        args = storable(dict(reply.args), f"the arguments of command {name!r}")
        return replace(reply, name=name, args=args, extras=storable(dict(reply.extras), f"what the reply says beside command {name!r}"))
    except UnstorableValue as error:
        raise BadReply(safe_text(str(error), 2000)) from error


def _parse(text: str) -> Any:
    if len(text) > MAX_LENGTH:
        raise BadReply(f"the reply takes {len(text)} characters, at most {MAX_LENGTH} are read; {_FORMAT}")
    found = []
    for candidate in [text.strip(), *(match.strip() for match in _FENCED.findall(text))]:
        try:
            found.append(json.loads(candidate))
        except (ValueError, RecursionError) as error:
            fault: Exception = error
    chosen = [value for value in found if isinstance(value, Mapping) and "command" in value] or list(_in_chatter(text))
    if chosen:
        return chosen[-1]
    if found:
        return found[0]
    raise BadReply(f"the reply is not JSON ({fault}): {_excerpt(text)}; {_FORMAT}") from fault


def _in_chatter(text: str) -> Iterator[Mapping[str, Any]]:
    """The objects with the key ``command`` that stand in a text, in their order.

    Models also write braces that mean something else. Each of those costs a look at the rest of the text at most, and only so
    many looks are taken: a text must not take longer to read than its length allows.
    """
    decoder, fruitless, end = json.JSONDecoder(), 0, 0
    while (begin := _OBJECT.search(text, end)) is not None and fruitless < MOST_LOOKS:
        try:
            value, end = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            fruitless, end = fruitless + 1, begin.start() + 1
        else:
            if "command" in value:
                yield value


def _from_mapping(reply: Mapping[str, Any]) -> Command:
    for key in ("command", "command_args"):
        if key not in reply:
            raise BadReply(f"the reply has no key {key!r}, only {_excerpt(sorted(map(str, reply)))}; {_FORMAT}")
    args = reply["command_args"]
    extras = {name: value for name, value in reply.items() if name not in ("command", "command_args") and not str(name).startswith("_")}
    return Command(reply["command"], {} if args is None else args, extras)


def _excerpt(value: Any) -> str:
    try:
        return safe_text(repr(value), 200)
    except Exception:  # a number of too many digits, or a repr that fails
        return f"a {type(value).__name__}"
