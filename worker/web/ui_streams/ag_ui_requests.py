"""Requests of AG-UI: a person's last message, or an answer to a run's question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import ConfigDict

from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.files import File
from perdure.worker.web.message_files import file_of_base64, file_of_url, plain_type
from perdure.worker.web.ui_streams.answers import ChatAnswer, reference_of
from perdure.worker.web.ui_streams.requests import (
    ChatBody,
    ChatMessage,
    Id,
    message_of,
    name_of_file,
)
from perdure.worker.web.ui_streams.tool_results import arguments_of
from perdure.worker.web.ui_streams.writer import UiToolCall

#: Types of a message's parts in AG-UI that have a source.
AG_UI_FILES = frozenset({"image", "audio", "video", "document"})


class AgUiMessage(ChatBody):
    """A message of a conversation, as AG-UI has it. Further fields are allowed."""

    model_config = ConfigDict(extra="allow")

    id: str
    role: str
    content: Any = None


class AgUiAnswer(ChatBody):
    """An answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class AgUiProps(ChatBody):
    """The properties that an app forwards to Perdure."""

    inputs: dict[str, Any] | None = None
    """The flow's inputs, for a new run."""


class AgUiInput(ChatBody):
    """What an `HttpAgent` of AG-UI sends."""

    thread_id: Id
    """The id of the conversation."""
    run_id: Id
    """The client's own id of this response."""
    messages: list[AgUiMessage]
    """The conversation so far. Only the last message of a person is used. Its files come with their
    data: addresses are refused."""
    resume: list[AgUiAnswer] | None = None
    """The answer to the interrupt with which the last response ended."""
    forwarded_props: AgUiProps | None = None


def of_ag_ui(body: AgUiInput) -> ChatMessage | ChatAnswer:
    """Return the person's message or answer in a request of AG-UI.

    Raises:
        InvalidInput: The request has no text or file of a person, or has several answers.
        UnsupportedPart: The message has a part that is neither a text nor a file with its data.
    """
    if body.resume:
        if len(body.resume) > 1:
            raise InvalidInput("a run asks one question at a time; expected one entry in resume")
        [entry] = body.resume
        is_cancelled = entry.status == "cancelled"
        text = entry.payload
        is_text = isinstance(text, str) and text.strip() != "" and not is_cancelled
        return ChatAnswer(
            reference_of(entry.interrupt_id),
            text,
            "payload" in entry.model_fields_set,
            is_cancelled,
            _calls_without_result(body.messages),
            ChatMessage(entry.interrupt_id, text) if is_text else None,
        )
    last = next((each for each in reversed(body.messages) if each.role == "user"), None)
    if last is None:
        raise InvalidInput("expected a message of role 'user' among the messages")
    parts = [{"type": "text", "text": last.content}] if isinstance(last.content, str) else []
    return message_of(last.id, parts or last.content, _ag_ui_file)


def _ag_ui_file(part: Mapping[str, Any], number: int) -> File | None:
    """Return a part of an AG-UI message as a file.

    None if the part is no file. Parts of version 1.0 have a ``source``. Earlier versions have
    ``binary`` parts. ``number`` is used in the name of a file without a name. For errors see
    ``file_of_url``.
    """
    kind = str(part.get("type"))
    source: Any = part.get("source")
    if kind == "binary":
        data, url, media_type = part.get("data"), part.get("url"), part.get("mimeType")
        name = part.get("filename")
    elif kind in AG_UI_FILES and isinstance(source, Mapping):
        has_data = source.get("type") == "data"
        data, url = (source.get("value"), None) if has_data else (None, source.get("value"))
        media_type = source.get("mimeType")
        more: Any = part.get("metadata")
        name = more.get("filename") if isinstance(more, Mapping) else None
    else:
        return None
    name = name or name_of_file(plain_type(media_type) or f"{kind}/", number)
    if isinstance(data, str) and data and not data.startswith("data:"):
        return file_of_base64(data, name, media_type)
    return file_of_url(kind, data or url, name, media_type)


def _calls_without_result(messages: Sequence[AgUiMessage]) -> list[UiToolCall]:
    """Return the tool calls without a result in an AG-UI conversation."""
    calls: dict[str, UiToolCall] = {}
    for message in messages:
        more = message.model_extra or {}
        for each in more.get("toolCalls") or ():
            function = each.get("function") if isinstance(each, Mapping) else None
            if isinstance(function, Mapping):
                calls[str(each.get("id"))] = UiToolCall(
                    str(each.get("id")),
                    str(function.get("name")),
                    arguments_of(function.get("arguments")),
                )
        calls.pop(str(more.get("toolCallId")), None)
    return list(calls.values())
