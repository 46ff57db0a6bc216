"""The prompt of another library's agent: earlier messages of its thread, and files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from perdure.flows.controllers.model.chat import UserMessage
from perdure.flows.controllers.model.files import MOST_OF_A_TEXT, form_of, loaded, message_with
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.files import BYTES, File, FileReference, artifact_name
from perdure.flows.core.json_values import canonical
from perdure.flows.core.thread_messages import ThreadMessage
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.steps import AsyncSteps

#: The earlier runs of the thread in an agent's prompt: nothing, their messages as text, or the
#: items of its library in full, with calls, results and files.
ThreadUse = Literal["none", "text", "full"]
#: The artifact with an agent's items in full, for the next run of the thread, and the one with the
#: items that the run itself began with.
ITEMS, BEFORE = "thread-items", "thread-items-before"
#: Name (of ``Steps.patched``) that marks a run whose agents get these items.
FULL = "perdure-full"
#: Maximum characters of the artifact. Items may hold a picture, as a file of a submission.
MOST_CHARACTERS = 8 * 1024 * 1024
#: Name (of ``Steps.patched``) that marks a run whose agents get earlier messages and files.
MARK = "perdure-prompt"


def check_thread(thread: str, what: str) -> None:
    """Raise InvalidFlow if ``thread`` is not ``none``, ``text`` or ``full``."""
    if thread not in ("none", "text", "full"):
        raise InvalidFlow(f"{what}: thread is {thread!r}; expected 'text', 'full' or 'none'")


def prompt_parts(steps: AsyncSteps) -> tuple[list[ThreadMessage], Sequence[FileReference]]:
    """Return the thread's earlier messages and the submitted files.

    An agent's prompt has them beside the goal. Both are empty in a run that an older release began,
    because its agent got its prompt without them.
    """
    messages = [each for each in steps.context.conversation if each.text]
    files = steps.context.files
    if (messages or files) and steps.patched(MARK):
        return messages, files
    return [], ()


def earlier_items(steps: AsyncSteps, library: str) -> tuple[list[Any], list[ThreadMessage]]:
    """Return the final items of the thread's last completed run of the same flow.

    The first round that reads the items stores them with its run, so that later rounds get the
    same.

    Args:
        library: the library of the agent. Items of a different library are not used.

    Returns:
        The items as JSON data, and the messages of the thread that the items do not contain.
            Without usable items: an empty list, and all messages.
    """
    context = steps.context
    messages = [each for each in context.conversation if each.text]
    try:
        kept: Any = json.loads(context.artifact(BEFORE))
    except KeyError:
        kept = None
    if kept is None:
        found = context.earlier.last_artifact(ITEMS) if messages else None
        kept = {"run": "", "library": library, "items": []}
        if found is not None and steps.patched(FULL):
            kept = {"run": found[0], **json.loads(found[1])}
        if context.earlier.is_thread:
            context.earlier.keep(BEFORE, canonical(kept))
    if kept["library"] != library or not kept["items"]:
        return [], messages
    ends = [
        place
        for place, each in enumerate(messages)
        if (each.run_id, each.role) == (kept["run"], "assistant")
    ]
    return kept["items"], messages[ends[-1] + 1 :] if ends else messages


def keep_items(steps: AsyncSteps, library: str, items: Any) -> None:
    """Store an agent's items for the thread's next run.

    The run's next commit writes them. Nothing is stored if the run has no thread. If the items are
    too long, an event reports it, and the next run gets the messages only.
    """
    context = steps.context
    if not context.earlier.is_thread:
        return
    text = canonical({"library": library, "items": items})
    if len(text) > MOST_CHARACTERS:
        context.tell(
            thread_as_text=f"the items take {len(text)} characters; the limit is "
            f"{MOST_CHARACTERS}. The next run of the thread gets messages only"
        )
        text = canonical({"library": library, "items": []})
    context.earlier.keep(ITEMS, text)


def pieces_of(text: str, files: Sequence[FileReference], context: RoundContext) -> list[str | File]:
    """Return a text and the files below it.

    Each file follows a line with its name. Pictures and documents are returned as files, other
    files as their text. A file that no model takes is only named, so that the model can pass its
    name to a tool.

    Raises:
        FatalError: a file of the run was deleted.
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
