"""The prompt of an OpenAI Agents SDK agent: earlier messages of its thread, and files."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, cast

from agents.items import TResponseInputItem
from agents.run import CallModelData, ModelInputData
from pydantic_core import to_jsonable_python

from perdure.flows.adapters.heard import HeardWords
from perdure.flows.adapters.prompts import earlier_items, keep_items, pieces_of, prompt_parts
from perdure.flows.core.files import PICTURES, File, FileReference
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.steps import AsyncSteps

#: Name, in the artifact with an agent's items, of the library whose items these are.
LIBRARY = "openai-agents"


def with_thread(
    asked: str | list[TResponseInputItem], steps: AsyncSteps, is_full: bool = False
) -> str | list[TResponseInputItem]:
    """Return an agent's input with the thread's earlier messages and the submitted files.

    The earlier messages come first, and the files last. Without messages and files, ``asked`` is
    returned unchanged.

    Args:
        asked: the input of ``run_agent``.
        is_full: whether the agent also gets the calls, results and files of the last completed run
            of this flow in the thread.
    """
    messages, files = prompt_parts(steps)
    if not messages and not files:
        return asked
    before: list[TResponseInputItem] = []
    if messages and is_full:
        before, messages = earlier_items(steps, LIBRARY)
    before = [*before, *(message_item(each.role, each.text) for each in messages)]
    if not isinstance(asked, str):
        items = [*before, *asked]
        return [*items, _with_files("", files, steps.context)] if files else items
    return [*before, _with_files(asked, files, steps.context)]


def keep_conversation(steps: AsyncSteps, items: list[TResponseInputItem]) -> None:
    """Store an agent's items for the thread's next run. The run's next commit writes them."""
    keep_items(steps, LIBRARY, to_jsonable_python(items))


class HeardInput:
    """A ``call_model_input_filter`` that adds messages of people.

    The SDK does not keep the items that a filter adds. So the filter adds them again to each later
    request, in the same place.
    """

    def __init__(self, heard: HeardWords) -> None:
        self._heard = heard
        #: The added items, each with the number of SDK items before it.
        self._items: list[tuple[int, TResponseInputItem]] = []

    async def filter(self, data: CallModelData[Any]) -> ModelInputData:
        """Return a request's input with all messages of people. New messages are read first."""
        given = data.model_data
        if words := await self._heard.before_request():
            self._items.append((len(given.input), message_item("user", words)))
        return ModelInputData(self.whole(given.input), given.instructions)

    def whole(self, items: list[TResponseInputItem]) -> list[TResponseInputItem]:
        """Return the SDK's items with all added messages. The list is a copy."""
        whole = list(items)
        for added, (place, item) in enumerate(self._items):
            whole.insert(place + added, item)
        return whole


def message_item(role: str, content: object) -> TResponseInputItem:
    """Return a message as an input item of the SDK."""
    return cast("TResponseInputItem", {"role": role, "content": content})


def _with_files(
    text: str, files: Sequence[FileReference], context: RoundContext
) -> TResponseInputItem:
    """Return a person's message with files as an input item. The files are below the text."""
    if not files:
        return message_item("user", text)
    return message_item("user", [_part(each) for each in pieces_of(text, files, context)])


def _part(piece: str | File) -> dict[str, str]:
    if isinstance(piece, str):
        return {"type": "input_text", "text": piece}
    url = f"data:{piece.media_type};base64,{base64.b64encode(piece.content).decode()}"
    if piece.media_type in PICTURES:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": piece.name, "file_data": url}
