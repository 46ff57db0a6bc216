"""What an agent of Pydantic AI is asked: earlier messages of its thread, and submitted files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserContent,
    UserPromptPart,
)

from perdure.flows.adapters.prompts import pieces_of
from perdure.flows.context import RoundContext
from perdure.flows.conversation import ThreadMessage
from perdure.flows.files import File, FileReference


def history_of(messages: Iterable[ThreadMessage]) -> list[ModelMessage]:
    """Return messages of a thread as the library has them."""
    return [
        ModelRequest(parts=[UserPromptPart(each.text)])
        if each.role == "user"
        else ModelResponse(parts=[TextPart(each.text)])
        for each in messages
    ]


def with_files(
    prompt: str | Sequence[UserContent], files: Sequence[FileReference], context: RoundContext
) -> str | Sequence[UserContent]:
    """Return a prompt with files of the run, each below a line with its name."""
    if not files:
        return prompt
    text, others = (prompt, ()) if isinstance(prompt, str) else ("", prompt)
    shown = [
        BinaryContent(each.content, media_type=each.media_type) if isinstance(each, File) else each
        for each in pieces_of(text, files, context)
    ]
    return [*others, *shown]
