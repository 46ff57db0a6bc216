"""Files in a model request: which files it shows, in which position, and their estimated tokens.

Messages have references to files. The bytes are loaded when the request is sent, and no turn stores
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from perdure.flows.controllers.model.chat import AttachedFile, ChatMessage, UserMessage
from perdure.flows.core.errors import FatalError, InvalidInput
from perdure.flows.core.files import PICTURES, File, FileReference
from perdure.flows.rounds.context import RoundContext

#: Maximum bytes and number of the files in one request. Providers take requests of 20 to 50 MB, and
#: base64 takes a third more than the bytes.
MOST_SHOWN, MOST_FILES_SHOWN = 16 * 1024 * 1024, 50
#: Maximum bytes that are read for one request. Of a text file, most are not shown.
MOST_READ = 2 * MOST_SHOWN
#: Estimated tokens of a picture: providers scale it down to about this.
PICTURE_TOKENS = 1_600
#: Estimated bytes of a PDF for each token: a page of text with 50 KB costs about 2,000.
PDF_BYTES_A_TOKEN = 25
#: Maximum characters of a text file that are shown.
MOST_OF_A_TEXT = 32_000
#: Their maximum bytes in UTF-8.
MOST_BYTES_OF_A_TEXT = 4 * MOST_OF_A_TEXT
#: The words behind the name of a file that a request leaves out.
HIDDEN = " (not shown: it was deleted, or the files of this request are too large together)"
#: Media types of texts that do not begin with ``text/``.
TEXTS = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/toml",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
    }
)
PDF = "application/pdf"
Form = Literal["picture", "document", "text"]


def form_of(media_type: str) -> Form | None:
    """Return how a model reads a file. None if no model accepts this media type."""
    if media_type in PICTURES:
        return "picture"
    if media_type == PDF:
        return "document"
    return "text" if media_type.startswith("text/") or media_type in TEXTS else None


def tokens_of(file: FileReference | File) -> float:
    """Return a file's estimated tokens in a request. 0 if no model accepts its media type."""
    size = len(file.content) if isinstance(file, File) else file.bytes
    match form_of(file.media_type):
        case "picture":
            return PICTURE_TOKENS
        case "document":
            return max(PICTURE_TOKENS, size / PDF_BYTES_A_TOKEN)
        case "text":
            return min(size, MOST_OF_A_TEXT) / 3
        case None:
            return 0


def message_with(text: str, references: Iterable[FileReference]) -> UserMessage:
    """Return a user message with a text and files. A line with its name precedes each file.

    A file whose media type no model accepts is only named, so that the model can pass the name to a
    command.
    """
    attached: list[AttachedFile] = []
    for each in references:
        is_shown = form_of(each.media_type) is not None
        line = f"[File {each.name}: {each.media_type}, {each.bytes:,} bytes"
        text = f"{text}\n\n{line}{']' if is_shown else ', not shown]'}".lstrip()
        if is_shown:
            attached.append(AttachedFile(len(text), each))
    return UserMessage(text, files=tuple(attached))


def shown_files(references: Iterable[FileReference]) -> list[UserMessage]:
    """Return a list with the user message that shows the files of commands' results.

    The list is empty if there is no file that a model accepts.
    """
    shown = [each for each in references if form_of(each.media_type) is not None]
    return [message_with("", shown)] if shown else []


def loaded(messages: Sequence[ChatMessage], context: RoundContext) -> Sequence[ChatMessage]:
    """Return messages with the bytes of their files.

    If all files together are too large or too many, the oldest files of commands' results are left
    out. A file of a command that the run no longer has is left out, too. The text
    says which files are not shown.

    Raises:
        FatalError: A file that was submitted with the run is missing.
    """
    if not any(isinstance(each, UserMessage) and each.files for each in messages):
        return messages
    submitted = {each.name for each in context.files}
    kept = _fitting(messages, submitted)

    def filled(message: ChatMessage) -> ChatMessage:
        if not isinstance(message, UserMessage) or not message.files:
            return message
        text, repeated, moved, files = message.text, message.repeated, 0, list[AttachedFile]()
        for each in message.files:
            file = _read(each, kept, submitted, context)
            at = each.at + moved
            if file is None:
                text, moved = f"{text[:at]}{HIDDEN}{text[at:]}", moved + len(HIDDEN)
                if repeated is not None and at <= repeated:
                    repeated += len(HIDDEN)
            else:
                files.append(replace(each, file=file, at=at))
        return replace(message, text=text, repeated=repeated, files=tuple(files))

    return [filled(message) for message in messages]


def _fitting(messages: Sequence[ChatMessage], submitted: set[str]) -> set[str]:
    """Return the names of the files that are sent with a request.

    Submitted files are chosen first, then the newest others. The first file that would exceed
    ``MOST_SHOWN``, ``MOST_READ`` or ``MOST_FILES_SHOWN`` ends the choice.

    Args:
        submitted: The names of the submitted files.
    """
    references = [
        each.file
        for message in messages
        if isinstance(message, UserMessage)
        for each in message.files
        if isinstance(each.file, FileReference)
    ]
    newest_first = references[::-1]
    names: set[str] = set()
    size = read = 0
    for each in sorted(newest_first, key=lambda each: each.name not in submitted):
        is_text = form_of(each.media_type) == "text"
        size += min(each.bytes, MOST_BYTES_OF_A_TEXT) if is_text else each.bytes
        read += each.bytes
        if size > MOST_SHOWN or read > MOST_READ or len(names) >= MOST_FILES_SHOWN:
            break
        names.add(each.name)
    return names


def _read(
    attached: AttachedFile, kept: set[str], submitted: set[str], context: RoundContext
) -> File | None:
    if isinstance(attached.file, File):
        return attached.file
    name = attached.file.name
    if name not in kept:
        return None
    try:
        return context.file(name)
    except InvalidInput as error:
        if name in submitted:
            raise FatalError(f"step {context.step}: {error}") from error
        return None
