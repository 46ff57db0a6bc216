"""Requests of the AI SDK: a person's last message, or an answer to a run's question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.files import File
from perdure.worker.web.message_files import file_of_url, plain_type
from perdure.worker.web.ui_streams.ai_sdk import INTERRUPT
from perdure.worker.web.ui_streams.answers import ChatAnswer, reference_of
from perdure.worker.web.ui_streams.requests import (
    ChatBody,
    ChatMessage,
    Id,
    message_of,
    name_of_file,
)
from perdure.worker.web.ui_streams.writer import UiToolCall


class AiSdkMessage(ChatBody):
    """A message of a conversation, as the AI SDK has it."""

    id: str = ""
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]] = Field(default_factory=list)


class AiSdkChat(ChatBody):
    """What `useChat` of the AI SDK sends."""

    id: Id
    """The id of the chat."""
    messages: Annotated[list[AiSdkMessage], Field(min_length=1)]
    """The conversation so far. Only the last message of a person is used, or its answer. Its files
    come with their data (`data:` URLs): addresses are refused."""
    trigger: str = "submit-message"
    """`regenerate-message` submits another run for the same message."""
    message_id: str | None = None
    """The id of the message to regenerate."""
    inputs: dict[str, Any] | None = None
    """The flow's inputs, for a new run."""


def of_ai_sdk(chat: AiSdkChat) -> ChatMessage | ChatAnswer:
    """Return the person's message or answer in a request of the AI SDK.

    An approval that the person answered in the last message is an answer. So is a text after a
    question of kind ``question``, even if other messages of the person stand between them.

    Raises:
        InvalidInput: The request has neither a text or file of a person nor an answer.
        UnsupportedPart: The message has a part that is neither a text nor a file with its data.
    """
    last = chat.messages[-1]
    if last.role == "assistant" and chat.trigger != "regenerate-message":
        answers = [part for part in last.parts if _is_answered(part)]
        if not answers:
            raise InvalidInput("the last message is an assistant's, and answers no approval")
        calls = _open_calls(last.parts)
        newest = _answer(answers.pop()["approval"], calls)
        others = []
        for part in reversed(answers):
            with suppress(InvalidInput):  # It is an approval of another server.
                others.append(_answer(part["approval"], calls))
        return replace(newest, others=others)
    place = max(
        (number for number, each in enumerate(chat.messages) if each.role == "user"), default=None
    )
    if place is None:
        raise InvalidInput("expected a message of role 'user' among the messages")
    message = chat.messages[place]
    said = message_of(message.id, message.parts, _ai_sdk_file)
    before = next((each for each in reversed(chat.messages[:place]) if each.role != "user"), None)
    if before is not None and before.role == "assistant" and chat.trigger == "submit-message":
        asked = [part for part in before.parts if part.get("type") == INTERRUPT]
        if asked and _data(asked[-1]).get("kind") == "question":
            reference = reference_of(_data(asked[-1]).get("interrupt"))
            calls = _open_calls(before.parts)
            return ChatAnswer(reference, said.text, calls=calls, message=said)
    return said


def _is_answered(part: Mapping[str, Any]) -> bool:
    approval = part.get("approval")
    return part.get("state") == "approval-responded" and isinstance(approval, Mapping)


def _answer(approval: Mapping[str, Any], calls: Sequence[UiToolCall]) -> ChatAnswer:
    payload = {"approved": approval.get("approved"), "reason": approval.get("reason")}
    return ChatAnswer(reference_of(approval.get("id")), payload, calls=calls)


def _ai_sdk_file(part: Mapping[str, Any], number: int) -> File | None:
    """Return a part of an AI SDK message as a file.

    None if the part is no file. ``number`` is used in the name of a file without a name. For errors
    see ``file_of_url``.
    """
    if part.get("type") != "file":
        return None
    media_type = part.get("mediaType")
    name = part.get("filename") or name_of_file(plain_type(media_type), number)
    return file_of_url("file", part.get("url"), name, media_type)


def _data(part: Mapping[str, Any]) -> Mapping[str, Any]:
    data = part.get("data")
    return data if isinstance(data, Mapping) else {}


def _open_calls(parts: Sequence[Mapping[str, Any]]) -> list[UiToolCall]:
    """Return an AI SDK message's tool calls without an output.

    Each has the person's decision if its approval was answered.
    """
    calls = []
    for part in parts:
        kind = str(part.get("type"))
        is_tool = kind.startswith("tool-") or kind == "dynamic-tool"
        if is_tool and not str(part.get("state")).startswith("output-"):
            name = part.get("toolName") or kind.removeprefix("tool-")
            approval, args = part.get("approval"), part.get("input")
            decision = approval.get("approved") if isinstance(approval, Mapping) else None
            calls.append(
                UiToolCall(
                    str(part.get("toolCallId")),
                    str(name),
                    args if isinstance(args, Mapping) else None,
                    decision if isinstance(decision, bool) else None,
                )
            )
    return calls
