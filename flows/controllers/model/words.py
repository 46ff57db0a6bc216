"""Replies in words: what a model says that calls no command, and what a flow makes of it (its key ``words``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from flows.context import RoundContext
from flows.controllers.model.chat import Reply
from flows.errors import BadReply
from flows.extras import bytes_of_reply, public
from flows.outcomes import Command, Interrupt, Turn
from flows.summaries import safe_text

#: ``answer``: they are the run's answer. ``ask``: the model is asked to call a command. ``person``: a person says what comes next.
Words = Literal["answer", "ask", "person"]

#: The name under which a history shows words; ``MARK`` among the extras tells them from a command that has this name.
SAY = "say"
MARK = "_words"
#: Under this name the round keeps the words, and its question has them, until a person has answered, so that the model is not asked twice.
RECORDED = "words"
#: Bytes of a kept reply that are recorded beside the words.
MOST_RECORDED = 100_000
QUESTION = (
    "The model says something and calls no command. Answer it, and it goes on; "
    "resume without an answer, and what it says is the run's answer."
)


def is_in_words(reply: Reply) -> bool:
    """Return whether the reply is words alone, ended in order; half a command in the JSON format is none."""
    return not reply.calls and reply.ended == "stop" and bool(reply.text.strip()) and '"command"' not in reply.text


def saying(extras: Mapping[str, Any]) -> Command:
    """Return words as they stand in a history."""
    return Command(SAY, {}, {**extras, MARK: True})


def decided(words: Words, reply: Reply, extras: Mapping[str, Any], context: RoundContext) -> Command | Interrupt | Turn:
    """Return what a reply in words comes to, where it is no bad reply (``ask``)."""
    if words == "answer":
        return Command("finish", {"answer": safe_text(reply.text.strip(), len(reply.text))}, public(extras))
    if bytes_of_reply(extras) > MOST_RECORDED:
        extras = public(extras)
    context.once(RECORDED, lambda: {"text": safe_text(reply.text.strip(), len(reply.text)), "extras": dict(extras)})
    question = recorded(context)
    assert question is not None
    return question


def can_end(context: RoundContext) -> bool:
    """Return whether a text is all that ``finish`` takes here; else words cannot end the run, and the model is asked for a call."""
    finish: Mapping[str, Any] = next((each for each in context.commands if each["name"] == "finish"), {})
    return list(finish.get("parameters", {}).get("required", [])) == ["answer"]


def recorded(context: RoundContext) -> Command | Interrupt | Turn | None:
    """Return what words said earlier in this round come to: a question, or what a person made of them; None where there are none."""
    if RECORDED not in context.journal.recorded:
        return None
    said = context.once(RECORDED, dict)
    if not context.answered or not isinstance(context.asked, Mapping) or RECORDED not in context.asked:
        return Interrupt(QUESTION, data={RECORDED: said["text"]})
    if context.answer is None:
        return Command("finish", {"answer": said["text"]}, public(said["extras"]))
    return Turn(saying(said["extras"]), {"person": context.answer})


def answer_to(turn: Turn) -> Any:
    """Return what a person answered to words in a history; None where they were a bad reply."""
    return turn.observation.get("person") if isinstance(turn.observation, Mapping) else None


def bad(error: BadReply, extras: Mapping[str, Any]) -> BadReply:
    """Return the same error, which keeps what the model said."""
    return error if error.command is not None else BadReply(str(error), saying(extras), error.others)
