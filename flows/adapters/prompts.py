"""What an agent of another library gets of its run: earlier messages of its thread, and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from perdure.flows.context import RoundContext
from perdure.flows.controllers.model.chat import UserMessage
from perdure.flows.controllers.model.files import MOST_OF_A_TEXT, form_of, loaded, message_with
from perdure.flows.conversation import ThreadMessage
from perdure.flows.errors import InvalidFlow
from perdure.flows.files import BYTES, File, FileReference, artifact_name
from perdure.flows.workflows.steps import AsyncSteps

#: What an agent gets of the runs before its run: nothing, or their messages.
ThreadUse = Literal["none", "text"]
#: Name of the mark of a run whose agents get earlier messages and files.
MARK = "perdure-prompt"


def check_thread(thread: str, what: str) -> None:
    """Raise InvalidFlow if ``thread`` is not a known word."""
    if thread not in ("none", "text"):
        raise InvalidFlow(f"{what}: thread is {thread!r}; expected 'text' or 'none'")


def prompt_parts(steps: AsyncSteps) -> tuple[list[ThreadMessage], Sequence[FileReference]]:
    """Return what a run's agent gets beside the goal: earlier messages and submitted files.

    A run that an older release began has no mark. Its agent has answered without them, so it goes
    on without them.
    """
    messages = [each for each in steps.context.conversation if each.text]
    files = steps.context.files
    if (messages or files) and steps.patched(MARK):
        return messages, files
    return [], ()


def pieces_of(text: str, files: Sequence[FileReference], context: RoundContext) -> list[str | File]:
    """Return a text with files below it, each behind a line with its name.

    A picture and a document are returned as a file, another file as its text. A file that no model
    takes has the line only, so that the model can name it to a tool.

    Raises:
        FatalError: the run has a file no more.
    """
    [message] = loaded([message_with(text, files)], context)
    assert isinstance(message, UserMessage)
    pieces: list[str | File] = []
    begin = 0
    for each in message.files:
        assert isinstance(each.file, File)
        pieces += [message.text[begin : each.at].strip("\n"), _shown(each.file)]
        begin = each.at
    pieces.append(message.text[begin:].strip("\n"))
    return [each for each in pieces if each != ""]


def _shown(file: File) -> str | File:
    if form_of(file.media_type) != "text":
        return file
    text = file.content.decode("utf-8", "replace")
    cut = (
        f"\n(cut after {MOST_OF_A_TEXT:,} of {len(text):,} characters; the whole is the artifact "
        f"{artifact_name(BYTES, file.name)!r})"
    )
    return f"<file>\n{text[:MOST_OF_A_TEXT]}{cut if len(text) > MOST_OF_A_TEXT else ''}\n</file>"
