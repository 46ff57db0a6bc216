"""Conversion of a run's turns to chat messages. Each request builds them from the history.

For a model without tools, a part of the system prompt describes the commands and the format of
replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perdure.flows.controllers.model.chat import (
    AnswerMessage,
    AssistantMessage,
    ChatMessage,
    ToolCall,
    UserMessage,
)
from perdure.flows.controllers.model.files import shown_files, tokens_of
from perdure.flows.controllers.model.history_window import (
    Group,
    WindowView,
    is_summary,
)
from perdure.flows.controllers.model.parse_reply import MARK, answer_to
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.budgets import Budget
from perdure.flows.core.files import references_in
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Command, Turn
from perdure.flows.core.reply_extras import FEEDBACK, REPLY, SPOKEN, public
from perdure.flows.core.thread_messages import ThreadMessage
from perdure.flows.rounds.messages_to_run import sentence

FORM = """\
Reply with one JSON object and nothing else:
{"thought": "...", "reasoning": "...", "plan": ["..."], "criticism": "...", \
"speak": "...", "command": "NAME", "command_args": {...}}
Only command and command_args are required. You receive the command's result as an observation.

The commands (name, what it does, JSON schema of its arguments):"""


def instructions(commands: Sequence[Mapping[str, Any]]) -> str:
    """Return the end of the system prompt for a model without tools.

    It lists the commands and describes the JSON format of a reply.
    """
    lines = [
        f"- {each['name']}: {each.get('description') or ''} {canonical(each['parameters'])}"
        for each in commands
    ]
    return "\n".join([FORM, *lines])


#: Bytes for each token. English, code and JSON have three to five, so three gives estimates that
#: are rather too high.
BYTES_A_TOKEN = 3
#: Bytes of a message besides its text.
FRAME = 20
#: Returns the text of an artifact of the run by name. Raises KeyError if the run does not have it.
Artifact = Callable[[str], str]


def conversation_messages(messages: Iterable[ThreadMessage]) -> list[ChatMessage]:
    """Convert the thread's earlier messages to chat messages."""
    return [
        UserMessage(each.text) if each.role == "user" else AssistantMessage(each.text)
        for each in messages
    ]


def history_messages(
    shown: WindowView, names: ToolNames, tools: bool, artifact: Artifact | None = None
) -> list[ChatMessage]:
    """Convert the shown history to chat messages.

    A sentence replaces the turns that are left out. If the model has written a summary of them, it
    follows the sentence.

    Args:
        tools: Whether commands are called as tools. Otherwise the replies are JSON texts.
        artifact: Reads the stored form of long replies. None: the messages of long replies consist
            of text and calls only.
    """
    messages = [
        message
        for group in shown.first
        for message in group_messages(group, names, tools, artifact)
    ]
    if shown.left_out:
        messages.append(UserMessage(_gap_text(shown)))
    return [
        *messages,
        *(
            message
            for group in shown.last
            for message in group_messages(group, names, tools, artifact)
        ),
    ]


def group_messages(
    group: Group, names: ToolNames, tools: bool, artifact: Artifact | None = None
) -> list[ChatMessage]:
    """Convert one reply of the model and the results of its commands to messages.

    They are an assistant message, a result for each of its calls, and feedback of people. A summary
    of older turns gives no message: ``history_messages`` shows it in place of these turns.

    Args:
        tools, artifact: As in ``history_messages``.
    """
    if is_summary(group):  # it is shown in the gap
        return []
    called: list[tuple[Command, Any]] = []
    others: list[Turn] = []
    for turn in group:
        if tools and turn.command is not None and turn.command.call:
            called.append((turn.command, turn.observation))
        else:
            others.append(turn)
    messages: list[ChatMessage] = []
    if called:
        calls = tuple(
            ToolCall(command.call, names.tool(command.name), canonical(dict(command.args)))
            for command, _ in called
        )
        messages.append(_assistant_message(called[0][0].extras, calls, artifact))
        messages += [
            AnswerMessage(call.id, call.name, text_of(answer))
            for call, (_, answer) in zip(calls, called, strict=True)
        ]
        messages += _files_in(answer for _, answer in called)
    for turn in others:
        messages += (tools and _answer_in_words(turn)) or _text_messages(turn, artifact)
    return [
        *messages,
        *(
            feedback_message(feedback)
            for turn in group
            if (feedback := feedback_of(turn)) is not None
        ),
    ]


def _gap_text(shown: WindowView) -> str:
    gap = f"Here {shown.left_out} earlier steps are left out; they have been carried out."
    return f"({gap} Your summary of them:)\n\n{shown.summary}" if shown.summary else f"({gap})"


def feedback_of(turn: Turn) -> Any:
    """Return a person's feedback on a turn. None if the turn has none."""
    return None if turn.command is None else turn.command.extras.get(FEEDBACK)


def feedback_message(feedback: Any) -> UserMessage:
    """Convert a person's feedback to a chat message."""
    return UserMessage(f"A person says: {text_of(feedback)}")


def budget_message(budgets: Mapping[str, Budget]) -> list[ChatMessage]:
    """Return the message that asks the model to finish because a budget runs low.

    Returns:
        A list with this message. It is empty if no budget runs low.
    """
    low = [
        f"{name}: {budget.spent:g} of {budget.limit:g} spent"
        for name, budget in sorted(budgets.items())
        if budget.is_low
    ]
    if not low:
        return []
    return [
        UserMessage(
            f"The budget of this run is nearly spent ({'; '.join(low)}). Wrap up: "
            "finish with the best answer you have."
        )
    ]


def merged(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Merge adjacent user messages into one.

    Many local models require that messages of user and assistant strictly alternate.
    """
    merged_messages: list[ChatMessage] = []
    for message in messages:
        if (
            merged_messages
            and isinstance(message, UserMessage)
            and isinstance(merged_messages[-1], UserMessage)
        ):
            merged_messages[-1] = _joined(merged_messages[-1], message)
        else:
            merged_messages.append(message)
    return merged_messages


def _joined(first: UserMessage, second: UserMessage) -> UserMessage:
    text = f"{first.text}\n\n{second.text}"
    if not second.files:
        return UserMessage(text, files=first.files)
    moved = len(text) - len(second.text)
    files = (replace(each, at=each.at + moved) for each in second.files)
    return UserMessage(text, files=(*first.files, *files))


def bytes_of(messages: Iterable[ChatMessage], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Return the approximate size in bytes of a model request: its messages, files and tools."""
    size = len(canonical(list(map(dict, tools))).encode("utf-8", "replace")) if tools else 0
    for message in messages:
        size += FRAME + len(message.text.encode("utf-8", "replace"))
        if isinstance(message, AssistantMessage):
            size += sum(
                FRAME + len(call.name) + len(call.arguments.encode("utf-8", "replace"))
                for call in message.calls
            )
        elif isinstance(message, UserMessage) and message.files:
            size += round(BYTES_A_TOKEN * sum(tokens_of(each.file) for each in message.files))
    return size


def text_of(observation: Any) -> str:
    """Convert an observation to text for the model. A text is unchanged, all else becomes JSON."""
    return observation if isinstance(observation, str) else canonical(observation)


def _assistant_message(
    extras: Mapping[str, Any], calls: tuple[ToolCall, ...], artifact: Artifact | None
) -> AssistantMessage:
    spoken = text_of(extras.get("thought") or "") if extras.get(SPOKEN, True) else ""
    return AssistantMessage(spoken, calls, _provider_form(extras, artifact))


def _provider_form(extras: Mapping[str, Any], artifact: Artifact | None) -> str:
    """Return a stored reply in the provider's own form, in which it is sent back.

    Returns:
        An empty text if that form was not stored, cannot be read here, or no longer exists.
    """
    reply = extras.get(REPLY)
    if not isinstance(reply, Mapping):
        return reply if isinstance(reply, str) else ""
    if artifact is None:
        return ""
    try:
        return artifact(reply["artifact"])
    except KeyError:  # the artifact was deleted; text and calls remain
        return ""


def _answer_in_words(turn: Turn) -> list[ChatMessage]:
    """Return the messages for an answer in text that did not end the run.

    The model has tools and called none, so its text became the command ``finish``, which failed.

    Returns:
        An empty list for any other turn.
    """
    match turn:
        case Turn(
            Command(name="finish", args={"answer": str(words)}, call=""), {"error": str(error)}
        ):
            return [AssistantMessage(words), UserMessage(error)]
    return []


def _text_messages(turn: Turn, artifact: Artifact | None) -> list[ChatMessage]:
    """Convert a turn without tool call to messages."""
    if turn.command is not None and MARK in turn.command.extras:
        person = answer_to(turn)
        reply = (
            f"Observation: {text_of(turn.observation)}"
            if person is None
            else f"A person says: {text_of(person)}"
        )
        return [_assistant_message(turn.command.extras, (), artifact), UserMessage(reply)]
    words = sentence(turn)
    if words is not None:
        return [UserMessage(words)]
    observation = UserMessage(f"Observation: {text_of(turn.observation)}")
    if turn.command is None:
        return [observation]
    spoken = AssistantMessage(_as_json(turn.command))
    return [spoken, observation, *_files_in([turn.observation])]


def _files_in(observations: Iterable[Any]) -> list[UserMessage]:
    """Return a list with the message that shows the files of observations.

    The list is empty if there is no file that a model accepts.
    """
    return shown_files(
        reference for observation in observations for reference in references_in(observation)
    )


def _as_json(command: Command) -> str:
    """Convert a command to a reply in JSON, in which the thoughts come first.

    A model without tools replies in this form.
    """
    fields = {**public(command.extras), "command": command.name, "command_args": dict(command.args)}
    return (
        "{"
        + ", ".join(f"{canonical(name)}: {canonical(value)}" for name, value in fields.items())
        + "}"
    )
