"""Requests of chat interfaces: what those of all protocols have in common.

A request has a person's last message, or an answer to a run's question (``answers.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.files import File, files_of
from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import TOPIC
from perdure.worker.errors import UnsupportedPart
from perdure.worker.web.message_files import named_apart

#: A part of the AI SDK without content. It marks the beginning of a step of a message.
STEP_START = "step-start"

Id = Annotated[str, Field(min_length=1, max_length=500)]


class ChatBody(BaseModel):
    """A request body of another protocol. Fields that Perdure does not use are ignored."""

    model_config = ConfigDict(
        extra="ignore", use_attribute_docstrings=True, alias_generator=to_camel
    )


@dataclass(frozen=True)
class ChatMessage:
    """A message of a person for a run."""

    id: str
    text: str
    files: Sequence[File] = ()


def topic_of(chat_id: str) -> str:
    """Return the topic that the live run of a chat holds.

    An id that is too long for a topic, or has other characters, is replaced by its digest.
    """
    topic = f"chat:{chat_id}"
    return topic if TOPIC.fullmatch(topic) else f"chat:{_digest(chat_id)}"


def key_of(protocol: str, flow: str, chat_id: str, message: ChatMessage, more: Any) -> str:
    """Return the idempotency key of a chat message.

    With the key, a repeated request starts no second run.

    Args:
        protocol: The name of the chat interface's protocol.
        more: Further JSON data. Requests with different data get different keys.
    """
    subject = [protocol, flow, chat_id, message.id, message.text, more]
    if message.files:
        subject.append([each.reference.data for each in message.files])
    return f"chat:{_digest(canonical(subject))}"


def message_of(
    message_id: str, parts: Any, file_of: Callable[[Mapping[str, Any], int], File | None]
) -> ChatMessage:
    """Return a person's message: its text in lines, and its files.

    Args:
        file_of: returns a part as a file, or None if the part is no file. The number is for files
            without a name.

    Raises:
        InvalidInput: the message has neither a text nor a file, or a file is not valid.
        UnsupportedPart: a part is neither a text nor a file. A run would miss this part.
    """
    texts: list[str] = []
    files: list[File] = []
    for number, part in enumerate(parts if isinstance(parts, list) else [], 1):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind != STEP_START:
            file = file_of(part, len(files) + 1) if isinstance(kind, str) else None
            if file is None:
                raise UnsupportedPart(
                    f"part {number} of the last message of role 'user' has the type "
                    f"{str(kind)[:60]!r}, which a run cannot take; expected texts and files with "
                    "their data. Pass other data in inputs"
                )
            files.append(file)
    text = "\n".join(texts)
    if not text.strip() and not files:
        raise InvalidInput("the last message of role 'user' has no text and no file")
    return ChatMessage(message_id, text, files_of(named_apart(files)))


def name_of_file(media_type: str, number: int) -> str:
    """Return a name for a nameless file: ``picture-1``, ``file-2``."""
    return f"{'picture' if media_type.startswith('image/') else 'file'}-{number}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
