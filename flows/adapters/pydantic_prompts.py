"""The prompt of a Pydantic AI agent: earlier messages of its thread, and submitted files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import ValidationError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserContent,
    UserPromptPart,
)

from perdure.flows.adapters.prompts import earlier_items, keep_items, pieces_of
from perdure.flows.core.files import File, FileReference
from perdure.flows.core.thread_messages import ThreadMessage
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.steps import AsyncSteps


def history_of(messages: Iterable[ThreadMessage]) -> list[ModelMessage]:
    """Return a thread's messages as requests and responses of the library."""
    return [
        ModelRequest(parts=[UserPromptPart(each.text)])
        if each.role == "user"
        else ModelResponse(parts=[TextPart(each.text)])
        for each in messages
    ]


#: Name, in the artifact with an agent's items, of the library whose items these are.
LIBRARY = "pydantic-ai"


def earlier_history(steps: AsyncSteps) -> tuple[list[ModelMessage], list[ThreadMessage]]:
    """Return the history of the thread's last completed run.

    Also return the thread's messages after that run. If the library cannot read the history, return
    an empty history and all messages. An event reports the reason.
    """
    items, messages = earlier_items(steps, LIBRARY)
    try:
        return ModelMessagesTypeAdapter.validate_python(items), messages
    except ValidationError as error:
        steps.context.tell(thread_as_text=f"the messages do not fit this library: {error}"[:2_000])
        return [], [each for each in steps.context.conversation if each.text]


def keep_history(steps: AsyncSteps, messages: list[ModelMessage]) -> None:
    """Store an agent's history for the thread's next run. The run's next commit writes it."""
    keep_items(steps, LIBRARY, ModelMessagesTypeAdapter.dump_python(messages, mode="json"))


def with_files(
    prompt: str | Sequence[UserContent], files: Sequence[FileReference], context: RoundContext
) -> str | Sequence[UserContent]:
    """Return a prompt with files below it.

    Each file follows a line with its name. Without files, the prompt is returned unchanged.
    """
    if not files:
        return prompt
    text, others = (prompt, ()) if isinstance(prompt, str) else ("", prompt)
    shown = [
        BinaryContent(each.content, media_type=each.media_type) if isinstance(each, File) else each
        for each in pieces_of(text, files, context)
    ]
    return [*others, *shown]
