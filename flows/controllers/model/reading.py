"""A model's reply, read as decisions: each of its calls becomes a command, or a bad reply that says what was wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flows.controllers.model.chat import Reply, ToolCall
from flows.controllers.model.names import ToolNames
from flows.controllers.model.words import bad
from flows.errors import BadReply
from flows.extras import REPLY, SPOKEN
from flows.outcomes import Command
from flows.replies import read_reply
from flows.summaries import safe_text

#: Characters of a reply that are taken: well below what one round may add to a run (256 KiB).
MAX_LENGTH = 100_000
#: Characters of what it thinks that are kept, and of what it said wrongly that it is shown.
THOUGHT_LENGTH, EXCERPT_LENGTH = 8_000, 200
#: Providers give calls ids of some thirty letters; some put two of them together.
ID_LENGTH = 200
#: Calls of one reply that are looked at.
MOST_CALLS = 64
ADVICE = "call one of the commands; call finish with the answer when the goal is met"


def decisions_of(reply: Reply, names: ToolNames) -> list[Command | BadReply]:
    """What the reply decides, in its order.

    Raises:
        BadReply: it decides nothing that could be answered call by call.
    """
    length = len(reply.text) + sum(len(call.arguments) + len(call.name) for call in reply.calls)
    if length > MAX_LENGTH:
        raise BadReply(f"the reply takes {length} characters, at most {MAX_LENGTH} are taken; {ADVICE}, and pass on less at once")
    if reply.calls:
        return [_read(call, part, reply, names) for part, call in enumerate(told_apart(reply.calls[:MOST_CALLS]))]
    if not reply.text.strip():
        why = {"length": "it used up its limit of tokens (max_tokens)", "content_filter": "its provider held it back"}.get(reply.ended)
        why = f"its provider refused what the model wrote ({reply.fault})" if reply.fault else why
        raise BadReply(f"the reply is empty{f': {why}' if why else ''}; {ADVICE}")
    said = beside(reply)
    if "{" not in reply.text:
        raise bad(BadReply(f"the reply calls no command: {safe_text(repr(reply.text), EXCERPT_LENGTH)}; {ADVICE}"), said)
    try:
        decided = read_reply(reply.text)
    except BadReply as error:
        cut = "; it was cut off at its limit of tokens (max_tokens)" if reply.ended == "length" else ""
        raise bad(BadReply(f"{error}{cut}", error.command), said) from error
    if not isinstance(decided, Command):
        raise bad(BadReply(f"the reply calls no command; {ADVICE}"), said)
    return [replace(decided, name=names.command(decided.name))]


def _read(call: ToolCall, part: int, reply: Reply, names: ToolNames) -> Command | BadReply:
    extras = beside(reply) if part == 0 else {}
    name = safe_text(names.command(call.name), ID_LENGTH)
    command = Command(name, {}, extras, call.id, part)
    is_cut = reply.ended == "length"
    try:
        args = json.loads(call.arguments or ("" if is_cut else "{}"))  # of a reply that was cut, they were still to come
    except (ValueError, RecursionError) as error:
        cut = "; the reply was cut off at its limit of tokens (max_tokens)" if is_cut else ""
        excerpt = safe_text(repr(call.arguments), EXCERPT_LENGTH)
        return BadReply(f"the arguments of command {name!r} are not JSON ({error}): {excerpt}{cut}; call it again", command)
    if not isinstance(args, dict):
        excerpt = safe_text(repr(args), EXCERPT_LENGTH)
        return BadReply(f"the arguments of command {name!r} are {excerpt}; expected an object of names and values", command)
    try:
        read = read_reply(replace(command, args=args))
    except BadReply as error:
        return BadReply(str(error), command)
    assert isinstance(read, Command)
    return replace(read, call=call.id, part=part)


def beside(reply: Reply) -> dict[str, Any]:
    """What a reply says beside its calls: a thought for people, and what its provider wants sent back."""
    spoken = safe_text(reply.text.strip(), THOUGHT_LENGTH)
    thought = spoken or safe_text(reply.thinking.strip(), THOUGHT_LENGTH)
    extras: dict[str, Any] = {"thought": thought} if thought else {}
    if thought and not spoken:
        extras[SPOKEN] = False
    if reply.kept:
        extras[REPLY] = reply.kept
    return extras


def told_apart(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls, each with an id of its own: some servers give all of them the same, or none."""
    seen: set[str] = set()
    apart = []
    for part, call in enumerate(calls):
        wanted = safe_text(call.id, ID_LENGTH) or f"call_{part}"
        given = wanted if wanted not in seen else f"{wanted[:ID_LENGTH]}_{part}"
        seen.add(given)
        apart.append(replace(call, id=given))
    return apart
