"""Pictures and files in the messages of OpenAI's API, as files of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.flows.core.files import MOST_FILES, MOST_TOGETHER, File, FileReference
from perdure.worker.domain.run import Run
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.message_files import file_of_url, named_apart

#: Types of a message's parts that are files.
FILE_PARTS = frozenset({"image_url", "input_image", "file", "input_file"})


def files_in(items: str | Sequence[Mapping[str, Any]]) -> list[File]:
    """Return the files in a conversation's user messages.

    They are in order, and have unique names.

    Args:
        items: The items of the conversation. A text has no files.

    Raises:
        UnsupportedPart: A part has a URL or the id of a file at OpenAI, and not the file's bytes.
        InvalidInput: The name, size or media type of a file is not allowed.
    """
    if isinstance(items, str):
        return []
    parts = [
        part
        for item in items
        if item.get("role") == "user" and isinstance(item.get("content"), list)
        for part in item["content"]
        if isinstance(part, Mapping) and part.get("type") in FILE_PARTS
    ]
    return named_apart([_file(part, number) for number, part in enumerate(parts, 1)])


def with_earlier_files(runs: AuthorizedClient, earlier: Run, files: Sequence[File]) -> list[File]:
    """Return the files of the flow's next run: those of its run before, then the new ones.

    The run before has the files of the runs before it, too. If there are more than a submission may
    have, the oldest are left out.

    Raises:
        ArtifactNotFound: A file of the run before is gone.
    """
    count, size = len(files), sum(len(each.content) for each in files)
    kept: list[str] = []
    for data in reversed(earlier.details.get("files", ())):
        reference = FileReference.of(data)
        assert reference is not None, "a run's details have references"
        count, size = count + 1, size + reference.bytes
        if count > MOST_FILES or size > MOST_TOGETHER:
            break
        kept.append(reference.name)
    return named_apart([*(runs.file(earlier.id, name) for name in reversed(kept)), *files])


def _file(part: Mapping[str, Any], number: int) -> File:
    kind = part["type"]
    inner = part.get(kind)
    fields = inner if isinstance(inner, Mapping) else part
    if kind in ("image_url", "input_image"):
        url = fields.get("url") or part.get("image_url")
    else:
        url = fields.get("file_data")
    name = fields.get("filename") or f"{'picture' if 'image' in kind else 'file'}-{number}"
    return file_of_url(kind, url, str(name))
