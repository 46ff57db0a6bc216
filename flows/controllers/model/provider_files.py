"""Conversion of files to message parts of the model library (pydantic-ai).

The library converts the parts to the provider's form: data URLs, file parts, or blocks. This module
is imported only when a request is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import BinaryContent, UserContent

from perdure.flows.controllers.model.chat import (
    AttachedFile,
    ChatMessage,
    ModelFailed,
    UserMessage,
)
from perdure.flows.controllers.model.files import MOST_OF_A_TEXT, form_of
from perdure.flows.core.errors import FatalError
from perdure.flows.core.files import BYTES, File, artifact_name


def content_with_files(text: str, files: Sequence[AttachedFile]) -> str | list[UserContent]:
    """Return the content of a user message: its texts, and the files between them.

    The content is a text if there are no files.
    """
    if not files:
        return text
    pieces: list[UserContent] = []
    begin = 0
    for each in files:
        pieces.append(text[begin : each.at].strip("\n"))
        assert isinstance(each.file, File)
        pieces.append(_part(each.file))
        begin = each.at
    pieces.append(text[begin:].strip("\n"))
    return [each for each in pieces if each != ""]


def _part(file: File) -> UserContent:
    if form_of(file.media_type) != "text":
        return BinaryContent(file.content, media_type=file.media_type)
    text = file.content.decode("utf-8", "replace")
    shown = text[:MOST_OF_A_TEXT]
    if len(shown) < len(text):
        shown += (
            f"\n(cut after {MOST_OF_A_TEXT:,} of {len(text):,} characters; the whole is the "
            f"artifact {artifact_name(BYTES, file.name)!r})"
        )
    return f"<file>\n{shown}\n</file>"


def shown_in(messages: Sequence[ChatMessage]) -> list[File]:
    """Return the pictures and documents in a request. Text files are left out."""
    return [
        each.file
        for message in messages
        if isinstance(message, UserMessage)
        for each in message.files
        if isinstance(each.file, File) and form_of(each.file.media_type) != "text"
    ]


def with_files_named(failure: ModelFailed, files: Sequence[File]) -> ModelFailed:
    """Return a failure whose error text names the files of the request.

    Only a FatalError is changed. If a model cannot read pictures, the error texts of most servers
    do not say so clearly.
    """
    if not isinstance(failure.error, FatalError) or not files:
        return failure
    names = ", ".join(dict.fromkeys(f"{each.name} ({each.media_type})" for each in files))
    error = FatalError(
        f"{failure.error}. The request showed {names}: if the model takes no such files, choose "
        "another model, or submit the goal without them"
    )
    return ModelFailed(error, failure.billed, failure.kind)


def is_refused_here(error: Exception) -> bool:
    """Return whether an error means that the model library itself rejects a file."""
    return isinstance(error, UserError | NotImplementedError | AssertionError) or (
        type(error) is RuntimeError
    )
