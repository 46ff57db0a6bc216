"""The prompt of a round: the chat messages and the tools of one request to a model.

The prompt depends on the round's context only. So no part of it is stored, and ``perdure show RUN
--prompt STEP`` builds it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure.flows.controllers.model.chat import (
    AnswerMessage,
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    UserMessage,
)
from perdure.flows.controllers.model.errors import after_refusal
from perdure.flows.controllers.model.files import message_with
from perdure.flows.controllers.model.history_window import Group, Window, WindowView, shown
from perdure.flows.controllers.model.messages import (
    BYTES_A_TOKEN,
    budget_message,
    bytes_of,
    conversation_messages,
    feedback_message,
    feedback_of,
    group_messages,
    history_messages,
    instructions,
    merged,
)
from perdure.flows.controllers.model.noted import notes_in_prompt
from perdure.flows.controllers.model.settings import ModelSettings, rendered
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.files import FileReference
from perdure.flows.core.json_values import canonical
from perdure.flows.rounds.context import RoundContext

#: The message that asks for a summary, of about 500 words.
SUMMARIZE = """\
Before you go on: the oldest steps of this conversation will be left out from here on. Write a \
summary of all steps so far, which will take their place. Reply with plain text, and call no \
command now.

State in at most 500 words: what has been done and found (names, numbers, paths and ids exactly), \
what was tried and failed, what is decided, and what is left to do."""
#: Characters of a prompt's digest in a round's event.
DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """The content of a request to a model.

    Attributes:
        messages: The chat messages, oldest first.
        tools: The commands as tools. Empty if the prompt lists them as text.
        dropped_to: As in ``history_window.WindowView``.
        compacts_to: As in ``history_window.WindowView``. None if the model is not asked for a
            summary.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    dropped_to: int | None = None
    compacts_to: int | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The prompt as JSON data for people: ``messages`` with their ``role``, and ``tools``."""
        return {
            "messages": [_data_of(message) for message in self.messages],
            "tools": [dict(tool) for tool in self.tools],
        }

    @property
    def digest(self) -> str:
        """A digest of all messages and tools. Two prompts are equal if their digests are equal."""
        return hashlib.sha256(canonical(self.data).encode("utf-8", "replace")).hexdigest()[
            :DIGEST_LENGTH
        ]


def prompt_of(
    settings: ModelSettings, context: RoundContext, names: ToolNames, tools: bool
) -> Prompt:
    """Return the prompt of this round's model request.

    Parts that the next request repeats come first. Parts for this request alone come last. So the
    provider finds the repeated parts in its cache.

    Args:
        tools: Whether the model calls commands as tools. Otherwise the prompt lists the commands
            and the format of replies.

    Raises:
        FatalError: A template cannot be rendered, or the run lacks a fact that the namespace of its
            notes names.
    """
    values = {name: value for name, value in context.values.items() if not name.startswith("_")}
    variables = {
        "goal": context.goal,
        "inputs": dict(context.inputs),
        "node_goal": context.node_goal,
        "commands": list(context.commands),
        "budgets": dict(context.budgets),
        "values": values,
        "recalled": values.get("recalled", []),
    }
    system = rendered(settings.system, "system", variables)
    if not tools:
        system = f"{system}\n\n{instructions(context.commands)}".strip()
    window = Window(**settings.window.model_dump())
    visible = shown(
        context.history, window, lambda group: _tokens(group, names, tools), settings.compaction
    )
    # A round with a person's answer sends that answer. The next round asks for the summary.
    compacts_to = None if context.answered else visible.compacts_to
    # Behind the conversation, which the requests of the runs before had at their beginning.
    notes = notes_in_prompt(settings.notes, context)
    lasting = merged(
        [
            *([SystemMessage(system)] if system else []),
            *conversation_messages(context.conversation),
            *([UserMessage(notes)] if notes else []),
            message_with(rendered(settings.user, "user", variables) or context.goal, context.files),
            *history_messages(visible, names, tools, context.artifact),
        ]
    )
    if compacts_to is not None:
        passing: list[ChatMessage] = [UserMessage(SUMMARIZE)]
    else:
        passing = [
            *_feedback(values.get("human_feedback"), context, visible),
            *after_refusal(context),
            *budget_message(context.budgets),
        ]
    return Prompt(
        tuple(_with_passing(lasting, passing)),
        tuple({**each, "name": names.tool(each["name"])} for each in context.commands)
        if tools
        else (),
        visible.dropped_to,
        compacts_to,
    )


def _feedback(feedback: Any, context: RoundContext, visible: WindowView) -> list[ChatMessage]:
    """Return a list with the message of a person's last feedback.

    The list is empty if there is no feedback, or if a shown turn already has it.
    """
    if feedback in (None, "") or not len(context.history):
        return []
    turns = (turn for group in (*visible.first, *visible.last) for turn in group)
    return (
        [] if any(feedback_of(turn) == feedback for turn in turns) else [feedback_message(feedback)]
    )


def _with_passing(lasting: list[ChatMessage], passing: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return all messages of a request, with adjacent user messages merged.

    Args:
        lasting: The messages that later requests repeat.
        passing: The messages that only this request has. They come last.
    """
    if not passing:
        return lasting
    last = lasting[-1]
    repeated = len(last.text) if isinstance(last, UserMessage) else 0
    *others, end = merged([*lasting, *passing])
    assert isinstance(end, UserMessage)
    return [*others, replace(end, repeated=repeated)]


def _tokens(group: Group, names: ToolNames, tools: bool) -> float:
    """Return a group's estimated tokens in a prompt."""
    return bytes_of(group_messages(group, names, tools)) / BYTES_A_TOKEN


def _data_of(message: ChatMessage) -> dict[str, Any]:
    """Return a chat message as JSON data for people.

    Of the provider's own form of a reply, only the size is included.
    """
    match message:
        case SystemMessage(text):
            return {"role": "system", "text": text}
        case AnswerMessage(call, name, text):
            return {"role": "tool", "call": call, "name": name, "text": text}
        case AssistantMessage(text, calls, kept):
            data: dict[str, Any] = {"role": "assistant", "text": text}
            if calls:
                data["calls"] = [
                    {"call": each.id, "name": each.name, "arguments": each.arguments}
                    for each in calls
                ]
            return {**data, "bytes_of_own_form": len(kept.encode())} if kept else data
        case _:
            files = [
                {"at": each.at, **each.file.data}
                for each in message.files
                if isinstance(each.file, FileReference)
            ]
            return {"role": "user", "text": message.text, **({"files": files} if files else {})}
