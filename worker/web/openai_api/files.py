"""Pictures and files in the messages of OpenAI's API, as files of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from perdure.flows.errors import InvalidInput
from perdure.flows.files import File, file_from

#: Types of a message's parts that are files.
FILE_PARTS = frozenset({"image_url", "input_image", "file", "input_file"})


def files_in(items: str | Sequence[Mapping[str, Any]]) -> list[File]:
    """Return the files in the messages of users, in their order.

    Raises:
        InvalidInput: One is an address or an id of OpenAI's files, or is not valid.
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
    return [_file(part, number) for number, part in enumerate(parts, 1)]


def _file(part: Mapping[str, Any], number: int) -> File:
    kind = part["type"]
    inner = part.get(kind)
    fields = inner if isinstance(inner, Mapping) else part
    if kind in ("image_url", "input_image"):
        url = fields.get("url") or part.get("image_url")
    else:
        url = fields.get("file_data")
    head, comma, data = str(url).partition(",")
    media_type, *parameters = head.removeprefix("data:").split(";")
    if not head.startswith("data:") or not comma or "base64" not in parameters:
        raise InvalidInput(
            f"a part of type {kind!r} has no data: expected data:MEDIA/TYPE;base64,... with the "
            "file itself. Perdure loads no addresses, and keeps no files under ids"
        )
    name = fields.get("filename") or f"{'picture' if 'image' in kind else 'file'}-{number}"
    return file_from({"name": str(name), "media_type": media_type.lower(), "data": unquote(data)})
