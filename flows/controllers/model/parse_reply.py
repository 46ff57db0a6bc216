"""Conversion of a model's reply to decisions.

Each call in a reply becomes a command, or a BadReply with its fault. A reply that is only text
calls no command. The flow's key ``words`` decides the use of such a reply.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from perdure.flows.commands.replies import MOST_CALLS, read_reply
from perdure.flows.controllers.model.chat import Reply, ToolCall
from perdure.flows.controllers.model.history_window import MARK as MARK_OF_DROP
from perdure.flows.controllers.model.history_window import SUMMARY
from perdure.flows.controllers.model.leaked_calls import is_leaked_call
from perdure.flows.controllers.model.thoughts import has_bare_thoughts
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.answer_types import takes_text
from perdure.flows.core.errors import BadReply
from perdure.flows.core.outcomes import Command, Interrupt, Turn
from perdure.flows.core.reply_extras import REPLY, SPOKEN, bytes_of_reply, public
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.context import RoundContext

#: ``answer``: the text is the run's answer. ``ask``: the model is asked to call a command.
#: ``person``: a person decides what comes next.
Words = Literal["answer", "ask", "person"]

#: The command name of a reply in words in a history. ``MARK`` among the extras distinguishes it
#: from a real command of this name.
SAY = "say"
MARK = "_words"
#: Name under which the round's journal and its question keep the text until a person has answered.
#: The model is then not requested twice.
RECORDED = "words"
#: Maximum bytes of the provider's form of a reply that are recorded with the text.
MOST_RECORDED = 100_000
#: Maximum characters of a summary.
MOST_OF_SUMMARY = 12_000
QUESTION = (
    "The model replied with text and called no command. Answer it to continue, "
    "or resume without an answer to make its text the run's answer."
)


def is_in_words(reply: Reply, names: ToolNames) -> bool:
    """Return whether a reply is complete and only text. The commands were offered as tools.

    A text that is a command in the JSON format does not count as text. Neither does a call that the
    server has left in the text. Other JSON belongs to the text.
    """
    return (
        not reply.calls
        and reply.ended == "stop"
        and bool(reply.text.strip())
        and not is_leaked_call(reply.text, names.tools)
    )


def saying(extras: Mapping[str, Any]) -> Command:
    """Return the command that stands for a text-only reply in the history.

    Args:
        extras: The parts of the reply (``beside``).
    """
    return Command(SAY, {}, {**extras, MARK: True})


def decided(
    words: Words, reply: Reply, extras: Mapping[str, Any], context: RoundContext
) -> Command | Interrupt | Turn:
    """Return the decision for a text-only reply.

    Args:
        words: ``answer``: the text becomes the run's answer. Any other value: a person is asked,
            and the reply is recorded until the person has answered. (The caller treats a reply as
            bad if the flow sets ``ask``.)
        extras: The parts of the reply (``beside``).
    """
    if words == "answer":
        return Command(
            "finish", {"answer": safe_text(reply.text.strip(), len(reply.text))}, public(extras)
        )
    if bytes_of_reply(extras) > MOST_RECORDED:
        extras = public(extras)
    context.once(
        RECORDED,
        lambda: {"text": safe_text(reply.text.strip(), len(reply.text)), "extras": dict(extras)},
    )
    question = recorded(context)
    assert question is not None
    return question


def can_end(context: RoundContext) -> bool:
    """Return whether a text-only reply can end the run.

    It can if ``finish`` requires only an answer, and the answer may be a text. Otherwise the model
    is asked for a call.
    """
    finish: Mapping[str, Any] = next(
        (each for each in context.commands if each["name"] == "finish"), {}
    )
    parameters: Mapping[str, Any] = finish.get("parameters", {})
    answer = parameters.get("properties", {}).get("answer", {})
    return list(parameters.get("required", [])) == ["answer"] and takes_text(
        answer, parameters.get("$defs", {})
    )


def recorded(context: RoundContext) -> Command | Interrupt | Turn | None:
    """Return the decision for the text-only reply that this step has recorded.

    It is the question to a person. After the person's response, it is the decision that follows: to
    finish with the text, or a turn with the person's words.

    Returns:
        None if the step has recorded no such reply.
    """
    if RECORDED not in context.journal.recorded:
        return None
    record = context.once(RECORDED, dict)
    if (
        not context.answered
        or not isinstance(context.asked, Mapping)
        or RECORDED not in context.asked
    ):
        return Interrupt(QUESTION, data={RECORDED: record["text"]})
    if context.answer is None:
        return Command("finish", {"answer": record["text"]}, public(record["extras"]))
    return Turn(saying(record["extras"]), {"person": context.answer})


def summary_turn(reply: Reply) -> Turn:
    """Convert a reply to a turn with the summary of turns that later requests leave out.

    A reply without text or with a refusal makes an empty summary, so that the run goes on.
    """
    extras = {SUMMARY: True, MARK_OF_DROP: reply.compacts_to}
    text = "" if reply.refusal else safe_text(reply.text.strip(), MOST_OF_SUMMARY)
    return Turn(Command("summarize", {}, extras), text)


def answer_to(turn: Turn) -> Any:
    """Return a person's answer to a text-only reply, as it is stored in the reply's turn.

    Returns:
        None if no person was asked, because the reply was treated as bad.
    """
    return turn.observation.get("person") if isinstance(turn.observation, Mapping) else None


def bad(error: BadReply, extras: Mapping[str, Any]) -> BadReply:
    """Return a bad reply's error with a command for the history that holds the reply's text.

    Later requests show the text. An error that already has a command is returned unchanged.

    Args:
        extras: The parts of the reply (``beside``).
    """
    return (
        error if error.command is not None else BadReply(str(error), saying(extras), error.others)
    )


#: Maximum characters of a reply: well below the limit of a round's additions to a run (256 KiB).
MAX_LENGTH = 100_000
#: Maximum characters kept of the model's thought, and shown to the model of its invalid reply.
THOUGHT_LENGTH, EXCERPT_LENGTH = 8_000, 200
#: Maximum characters of a call's id. Providers' ids have about thirty, and some providers join two.
ID_LENGTH = 200
#: Maximum calls of a reply that are answered one by one, those above ``MOST_CALLS`` with an error.
#: The answers have to fit into one round.
MOST_ANSWERED = 4 * MOST_CALLS
#: Reasons why a reply ended of replies that are complete.
WHOLE = ("stop", "tool_call")
ADVICE = "call one of the commands; call finish with the answer when the goal is met"


def decisions_of(reply: Reply, names: ToolNames, tools: bool = False) -> list[Command | BadReply]:
    """Convert a reply to commands. A BadReply replaces each invalid call.

    Args:
        tools: Whether the commands were offered as tools. Then no text is a command, because the
            model may quote one.

    Raises:
        BadReply: The whole reply is invalid: it is too long, empty, or calls no command.
    """
    length = len(reply.text) + sum(len(call.arguments) + len(call.name) for call in reply.calls)
    if length > MAX_LENGTH:
        raise BadReply(
            f"the reply has {length} characters, at most {MAX_LENGTH} are allowed; {ADVICE}, "
            "and write less at once"
        )
    if len(reply.calls) > MOST_ANSWERED:
        raise BadReply(
            f"the reply has {len(reply.calls)} calls, at most {MOST_CALLS} are carried out; "
            f"{ADVICE}, and call fewer at once"
        )
    if reply.calls:
        return [
            _read(call, part, reply, names) for part, call in enumerate(told_apart(reply.calls))
        ]
    if not reply.text.strip():
        why = {
            "length": "it used up its limit of tokens (max_tokens)",
            "content_filter": "its provider blocked it",
        }.get(reply.ended)
        why = f"its provider refused what the model wrote ({reply.fault})" if reply.fault else why
        raise BadReply(f"the reply is empty{f': {why}' if why else ''}; {ADVICE}")
    extras = beside(reply)
    if reply.ended not in WHOLE:
        excerpt = safe_text(repr(reply.text), EXCERPT_LENGTH)
        raise bad(BadReply(f"the reply {_cut(reply)}: {excerpt}; {ADVICE}"), extras)
    is_leaked = is_leaked_call(reply.text, names.tools, commands=tools)
    what = "has a call as text, so it calls no command" if is_leaked else "calls no command"
    uncalled = BadReply(
        f"the reply {what}: {safe_text(repr(reply.text), EXCERPT_LENGTH)}; {ADVICE}"
    )
    if tools or "{" not in reply.text or has_bare_thoughts(reply.text):
        raise bad(uncalled, extras)
    try:
        decided = read_reply(reply.text)
    except BadReply as error:
        if is_leaked and error.command is None:
            raise bad(uncalled, extras) from error
        raise bad(BadReply(str(error), error.command), extras) from error
    if not isinstance(decided, Command):
        raise bad(BadReply(f"the reply calls no command; {ADVICE}"), extras)
    drop = {name: extras[name] for name in (MARK_OF_DROP,) if name in extras}
    return [replace(decided, name=names.command(decided.name), extras={**decided.extras, **drop})]


def _cut(reply: Reply) -> str:
    """Return how a reply that is not complete ended."""
    if reply.ended == "length":
        return "was cut off at its limit of tokens (max_tokens)"
    return f"ended early ({safe_text(reply.ended, EXCERPT_LENGTH)})"


def _read(call: ToolCall, part: int, reply: Reply, names: ToolNames) -> Command | BadReply:
    """Convert one tool call to a command. Return a BadReply if the call is invalid.

    Args:
        part: The position of the call in the reply.
    """
    extras = beside(reply) if part == 0 else {}
    name = safe_text(names.command(call.name), ID_LENGTH)
    command = Command(name, {}, extras, call.id, part)
    is_whole = reply.ended in WHOLE
    try:
        args = json.loads(call.arguments or ("{}" if is_whole else ""))  # a cut reply lacks them
    except (ValueError, RecursionError) as error:
        cut = "" if is_whole else f"; the reply {_cut(reply)}"
        excerpt = safe_text(repr(call.arguments), EXCERPT_LENGTH)
        return BadReply(
            f"the arguments of command {name!r} are not JSON ({error}): {excerpt}{cut}; "
            "call it again",
            command,
        )
    if not isinstance(args, dict):
        excerpt = safe_text(repr(args), EXCERPT_LENGTH)
        return BadReply(
            f"the arguments of command {name!r} are {excerpt}; "
            "expected an object of names and values",
            command,
        )
    try:
        read = read_reply(replace(command, args=args))
    except BadReply as error:
        return BadReply(str(error), command)
    assert isinstance(read, Command)
    return replace(read, call=call.id, part=part)


def beside(reply: Reply) -> dict[str, Any]:
    """Return the parts of a reply other than its calls, as extras of its first command.

    They are a thought for people, the provider's form of the reply for sending back, and
    ``Reply.dropped_to``. A part that the reply lacks is left out.
    """
    spoken = _spoken(reply.text.strip())
    thought = spoken or safe_text(reply.thinking.strip(), THOUGHT_LENGTH)
    extras: dict[str, Any] = {"thought": thought} if thought else {}
    if thought and not spoken:
        extras[SPOKEN] = False
    if reply.kept:
        extras[REPLY] = reply.kept
    if reply.dropped_to is not None:
        extras[MARK_OF_DROP] = reply.dropped_to
    return extras


def _spoken(text: str) -> str:
    """Return a reply's text for later requests. A cut text says so, because its model reads it."""
    if len(text) <= THOUGHT_LENGTH:
        return safe_text(text, THOUGHT_LENGTH)
    note = f"… [this text had {len(text):,} characters; the rest was not kept]"
    return safe_text(text[: THOUGHT_LENGTH - len(note)], THOUGHT_LENGTH) + note


def told_apart(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return a reply's tool calls with unique ids, none of which is empty.

    Some servers give all calls the same id, or none.
    """
    seen: set[str] = set()
    apart = []
    for part, call in enumerate(calls):
        wanted = safe_text(call.id, ID_LENGTH) or f"call_{part}"
        unique = wanted if wanted not in seen else f"{wanted[:ID_LENGTH]}_{part}"
        seen.add(unique)
        apart.append(replace(call, id=unique))
    return apart
