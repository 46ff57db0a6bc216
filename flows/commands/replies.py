"""The parser of a controller's reply. The result is one decision."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from perdure.flows.core.errors import BadReply, UnstorableValue
from perdure.flows.core.json_values import storable
from perdure.flows.core.outcomes import Command, Finish, Interrupt
from perdure.flows.core.summaries import safe_text

#: Possessive, so that the search takes time linear in the length of the model's text.
_FENCED = re.compile(r"```[A-Za-z]*+(.*)```", re.DOTALL)
#: The possible beginning of an object with a key.
_OBJECT = re.compile(r"\{\s*+\"")
#: Maximum failed attempts to parse an object in a text. Braces in it often mean something else.
MAX_FAILED_PARSES = 100
#: Maximum characters of a reply that are read. A run can store less than this from one round.
MAX_LENGTH = 1024 * 1024
#: Maximum calls of one reply. Further calls are answered with an error. Those of a model are not
#: read.
MOST_CALLS = 64
_FORMAT = 'expected a JSON object like {"thought": "...", "command": "name", "command_args": {...}}'


def read_reply(reply: Any) -> Command | Finish | Interrupt:
    """Parse a controller's decision to a ``Command``, ``Finish`` or ``Interrupt``.

    A reply of one of these types is kept. A mapping, or its JSON text, needs ``command`` and
    ``command_args`` (null: no arguments). The JSON may stand in a fence of three backticks or in
    other text, where the last object with the key ``command`` counts. All other fields (thought,
    reasoning, plan, criticism, speak) are kept in ``Command.extras``, except names that begin with
    ``_``.

    Raises:
        BadReply: the reply has another form, or the command's arguments are not JSON.
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
            raise BadReply(
                f"the arguments of command {name!r} are {_excerpt(reply.args)}; "
                "expected an object of names and values"
            )
        args = storable(dict(reply.args), f"the arguments of command {name!r}")
        return replace(
            reply,
            name=name,
            args=args,
            extras=storable(
                dict(reply.extras), f"the other fields of the reply with command {name!r}"
            ),
        )
    except UnstorableValue as error:
        raise BadReply(safe_text(str(error), 2000)) from error


def _parse(text: str) -> Any:
    if len(text) > MAX_LENGTH:
        raise BadReply(
            f"the reply has {len(text)} characters; at most {MAX_LENGTH} are read; {_FORMAT}"
        )
    values = []
    for candidate in [text.strip(), *(match.strip() for match in _FENCED.findall(text))]:
        try:
            values.append(json.loads(candidate))
        except (ValueError, RecursionError) as error:
            fault: Exception = error
    chosen = [
        value for value in values if isinstance(value, Mapping) and "command" in value
    ] or list(_objects_in_text(text))
    if chosen:
        return chosen[-1]
    if values:
        return values[0]
    raise BadReply(f"the reply is not JSON ({fault}): {_excerpt(text)}; {_FORMAT}") from fault


def _objects_in_text(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects with ``command`` in a model's text.

    The objects are in the order of the text. Models also write braces that mean something else.
    Each failed attempt reads at most the rest of the text. ``MAX_FAILED_PARSES`` limits the
    attempts, so that no text takes too long to read.
    """
    decoder, fruitless, end = json.JSONDecoder(), 0, 0
    while (begin := _OBJECT.search(text, end)) is not None and fruitless < MAX_FAILED_PARSES:
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
            raise BadReply(
                f"the reply has no key {key!r}, only {_excerpt(sorted(map(str, reply)))}; {_FORMAT}"
            )
    args = reply["command_args"]
    extras = {
        name: value
        for name, value in reply.items()
        if name not in ("command", "command_args") and not str(name).startswith("_")
    }
    return Command(reply["command"], {} if args is None else args, extras)


def _excerpt(value: Any) -> str:
    try:
        return safe_text(repr(value), 200)
    except Exception:  # A number with too many digits, or a failing repr.
        return f"a {type(value).__name__}"
