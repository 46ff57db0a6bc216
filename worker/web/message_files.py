"""Files in the messages of chats.

A part of a message that contains a file's bytes becomes a file of the run. A part with only a URL
or an id is rejected. A server that downloaded URLs for its callers would reach hosts that the
callers cannot reach (server-side request forgery).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from perdure.flows.core.files import MOST_OF_A_NAME, File
from perdure.worker.errors import UnsupportedPart


def file_of_url(kind: str, url: Any, name: Any, media_type: Any = None) -> File:
    """Return the file in a message part that has a data URL (RFC 2397).

    Args:
        kind: The part's type, for the error text.
        url: The part's URL. Any value but a data URL is an error.
        name: The file's name, not yet validated.
        media_type: The part's media type. It takes precedence over that in the URL. None: the URL's
            media type applies.

    Raises:
        UnsupportedPart: ``url`` is not a data URL, or its data is not valid base64.
        InvalidInput: The name, size or media type of the file is not allowed.
    """
    head, comma, data = (url if isinstance(url, str) else "").partition(",")
    if head[:5].lower() != "data:" or not comma:
        raise UnsupportedPart(
            f"a part of type {kind!r:.60} has no data: expected data:MEDIA/TYPE;base64,... with "
            "the file itself. Perdure loads no addresses, and keeps no files under ids"
        )
    own_type, *parameters = head[5:].split(";")
    is_base64 = "base64" in (each.strip().lower() for each in parameters)
    wanted = media_type if isinstance(media_type, str) and media_type else own_type
    if is_base64:
        return file_of_base64(unquote(data), name, wanted)
    return File(name, unquote_to_bytes(data), plain_type(wanted or "text/plain"))


def file_of_base64(data: str, name: Any, media_type: Any) -> File:
    """Return the file whose content is ``data``, decoded from base64.

    Padding is optional. The standard and the URL-safe alphabet are accepted.

    Raises:
        UnsupportedPart: The data is not base64.
        InvalidInput: The name, size or media type of the file is not allowed.
    """
    text = "".join(data.split()).rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError as error:
        raise UnsupportedPart(
            f"file {name!r:.200}: expected its bytes as base64 ({error})"
        ) from error
    return File(name, content, plain_type(media_type))


def plain_type(media_type: Any) -> str:
    """Return a media type in lower case, without parameters.

    Returns:
        '' if the media type is missing, is not a text, or has no subtype: ``image``, ``image/*``.
    """
    text = media_type if isinstance(media_type, str) else ""
    base = text.partition(";")[0].strip().lower()
    return "" if "/" not in base or base.endswith("/*") else base


def named_apart(files: Sequence[File]) -> list[File]:
    """Return the files of a message with unique names.

    A repeated name gets a number: ``image.png``, ``image-2.png``. Browsers give the same name to
    each picture that a person pastes.
    """
    apart: list[File] = []
    names = {each.name for each in files}
    used: set[str] = set()
    for each in files:
        name, number = each.name, 2
        while name in used or (name != each.name and name in names):
            stem, dot, suffix = each.name.rpartition(".")
            if not stem:
                stem, dot, suffix = each.name, "", ""
            ending = f"-{number}{dot}{suffix}"
            name = f"{stem[: MOST_OF_A_NAME - len(ending)]}{ending}"
            number += 1
        used.add(name)
        apart.append(each if name == each.name else replace(each, name=name))
    return apart
