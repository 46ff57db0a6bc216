"""A run's turns as chat messages: the history is kept once, and every request is made from it anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flows.budgets import Budget
from flows.controllers.model.chat import AnswerMessage, AssistantMessage, ChatMessage, ToolCall, UserMessage
from flows.controllers.model.names import ToolNames
from flows.controllers.model.window import Group, Shown
from flows.controllers.model.words import MARK, answer_to
from flows.extras import FEEDBACK, REPLY, SPOKEN, public
from flows.outcomes import Command, Turn
from flows.values import canonical

#: Bytes of English, code and JSON that make a token are three to five; with three an estimate is rather too high.
BYTES_A_TOKEN = 3
#: What a message takes beside its text, in bytes.
FRAME = 20
#: Reads an artifact of the run by name; raises KeyError.
Artifact = Callable[[str], str]


def history_messages(shown: Shown, names: ToolNames, tools: bool, artifact: Artifact | None = None) -> list[ChatMessage]:
    """The messages of what the window shows; a gap is told in a sentence.

    Args:
        tools: commands were called as tools; else both sides speak JSON.
        artifact: reads what long replies keep; None: they are made of their text and calls.
    """
    said = [message for group in shown.first for message in group_messages(group, names, tools, artifact)]
    if shown.left_out:
        said.append(UserMessage(f"(Here {shown.left_out} earlier steps are left out; they have been carried out.)"))
    return [*said, *(message for group in shown.last for message in group_messages(group, names, tools, artifact))]


def group_messages(group: Group, names: ToolNames, tools: bool, artifact: Artifact | None = None) -> list[ChatMessage]:
    """One reply and what came of it: an assistant message, and an answer to each of its calls."""
    called: list[tuple[Command, Any]] = []
    others: list[Turn] = []
    for turn in group:
        if tools and turn.command is not None and turn.command.call:
            called.append((turn.command, turn.observation))
        else:
            others.append(turn)
    messages: list[ChatMessage] = []
    if called:
        calls = tuple(ToolCall(command.call, names.tool(command.name), canonical(dict(command.args))) for command, _ in called)
        messages.append(_said_with(called[0][0].extras, calls, artifact))
        messages += [AnswerMessage(call.id, call.name, text_of(answer)) for call, (_, answer) in zip(calls, called, strict=True)]
    messages += [message for turn in others for message in _in_words(turn, artifact)]
    return [*messages, *(feedback_message(said) for turn in group if (said := feedback_of(turn)) is not None)]


def feedback_of(turn: Turn) -> Any:
    """Return what a person said of a turn; None where nothing was said."""
    return None if turn.command is None else turn.command.extras.get(FEEDBACK)


def feedback_message(feedback: Any) -> UserMessage:
    """Return what a person said as the model reads it."""
    return UserMessage(f"A person says: {text_of(feedback)}")


def budget_message(budgets: Mapping[str, Budget]) -> list[ChatMessage]:
    """What the model is told at last where a budget runs low."""
    low = [f"{name}: {budget.spent:g} of {budget.limit:g} spent" for name, budget in sorted(budgets.items()) if budget.is_low]
    if not low:
        return []
    return [UserMessage(f"The budget of this run is nearly spent ({'; '.join(low)}). Wrap up: finish with the best answer you have.")]


def merged(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """The messages, those of the user that stand side by side as one: many a local model takes turns strictly, or not at all."""
    found: list[ChatMessage] = []
    for message in messages:
        if found and isinstance(message, UserMessage) and isinstance(found[-1], UserMessage):
            found[-1] = UserMessage(f"{found[-1].text}\n\n{message.text}")
        else:
            found.append(message)
    return found


def bytes_of(messages: Iterable[ChatMessage], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Bytes of the messages and of what the model is told of its tools, about as they travel."""
    size = len(canonical(list(map(dict, tools))).encode("utf-8", "replace")) if tools else 0
    for message in messages:
        size += FRAME + len(message.text.encode("utf-8", "replace"))
        if isinstance(message, AssistantMessage):
            size += sum(FRAME + len(call.name) + len(call.arguments.encode("utf-8", "replace")) for call in message.calls)
    return size


def text_of(observation: Any) -> str:
    """An observation as a model reads it: text as it is, everything else as JSON."""
    return observation if isinstance(observation, str) else canonical(observation)


def _said_with(extras: Mapping[str, Any], calls: tuple[ToolCall, ...], artifact: Artifact | None) -> AssistantMessage:
    spoken = text_of(extras.get("thought") or "") if extras.get(SPOKEN, True) else ""
    return AssistantMessage(spoken, calls, _kept(extras, artifact))


def _kept(extras: Mapping[str, Any], artifact: Artifact | None) -> str:
    reply = extras.get(REPLY)
    if not isinstance(reply, Mapping):
        return reply if isinstance(reply, str) else ""
    if artifact is None:
        return ""
    try:
        return artifact(reply["artifact"])
    except KeyError:  # somebody deleted it; text and calls are there
        return ""


def _in_words(turn: Turn, artifact: Artifact | None) -> list[ChatMessage]:
    if turn.command is not None and MARK in turn.command.extras:
        person = answer_to(turn)
        heard = f"Observation: {text_of(turn.observation)}" if person is None else f"A person says: {text_of(person)}"
        return [_said_with(turn.command.extras, (), artifact), UserMessage(heard)]
    told = UserMessage(f"Observation: {text_of(turn.observation)}")
    return [told] if turn.command is None else [AssistantMessage(_as_json(turn.command)), told]


def _as_json(command: Command) -> str:
    """The reply in the seed's format, its thoughts first."""
    said = {**public(command.extras), "command": command.name, "command_args": dict(command.args)}
    return "{" + ", ".join(f"{canonical(name)}: {canonical(value)}" for name, value in said.items()) + "}"
