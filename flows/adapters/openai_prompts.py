"""What an agent of the OpenAI Agents SDK is asked: earlier messages of its thread, and files."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import cast

from agents.items import TResponseInputItem

from perdure.flows.adapters.prompts import pieces_of, prompt_parts
from perdure.flows.context import RoundContext
from perdure.flows.files import PICTURES, File, FileReference
from perdure.flows.workflows.steps import AsyncSteps


def with_thread(
    asked: str | list[TResponseInputItem], steps: AsyncSteps
) -> str | list[TResponseInputItem]:
    """Return the input of an agent behind the earlier messages of its thread, with files."""
    messages, files = prompt_parts(steps)
    if not messages and not files:
        return asked
    before = [_message(each.role, each.text) for each in messages]
    if not isinstance(asked, str):
        items = [*before, *asked]
        return [*items, _with_files("", files, steps.context)] if files else items
    return [*before, _with_files(asked, files, steps.context)]


def _message(role: str, content: object) -> TResponseInputItem:
    return cast("TResponseInputItem", {"role": role, "content": content})


def _with_files(
    text: str, files: Sequence[FileReference], context: RoundContext
) -> TResponseInputItem:
    """Return a message of a person: a text, and files below it."""
    if not files:
        return _message("user", text)
    return _message("user", [_part(each) for each in pieces_of(text, files, context)])


def _part(piece: str | File) -> dict[str, str]:
    if isinstance(piece, str):
        return {"type": "input_text", "text": piece}
    url = f"data:{piece.media_type};base64,{base64.b64encode(piece.content).decode()}"
    if piece.media_type in PICTURES:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": piece.name, "file_data": url}
