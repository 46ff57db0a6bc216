"""Stored values for people: JSON trees, texts and tracebacks.

A value may be several MB long, so a page shows only a part of limited size. Long text is divided
into blocks, which the browser lays out only when they are in view.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

#: Maximum nodes of a JSON tree on a page. Chromium lays that out in about 50 ms.
MOST_NODES = 2000
#: Maximum entries of one object or array that are shown.
MOST_ENTRIES = 200
#: Maximum depth of a tree. Deeper values are shown as text.
MOST_DEPTH = 12
#: Maximum characters of one text in a tree.
MOST_TEXT = 2000
#: Characters of a long text on one page. The rest is one link away.
PAGE_CHARACTERS = 200_000
#: Characters of one block of a long text.
BLOCK_CHARACTERS = 8_000
#: Depth down to which a tree is unfolded at first.
OPEN_DEPTH = 2
#: A line of a traceback that stands for folded frames (engine/traceback_text.py).
FOLDED = re.compile(r"^  \((\d+) of Perdure, Python and libraries, last (.+)\)$")


@dataclass
class JsonNode:
    """One value of a JSON tree.

    Attributes:
        name: The value's key in its object or position in its array. None for the root.
        kind: ``object``, ``array``, ``text``, ``number``, ``flag`` or ``null``.
        text: The value as text. For an object or array, the number of its entries: ``3 fields``.
        children: The entries of an object or array that are shown.
        left_out: Number of entries (of an object or array) or characters that are not shown.
        is_open: Whether the page shows the entries unfolded at first.
    """

    name: str | None
    kind: str
    text: str
    children: list[JsonNode] = field(default_factory=list)
    left_out: int = 0
    is_open: bool = False


def tree_of(value: Any) -> JsonNode | None:
    """Return a JSON value as a tree of limited size.

    A text that contains a JSON object or array is parsed.

    Returns:
        None if the value is neither an object or array nor such a text.
    """
    read = _read(value)
    if not isinstance(read, dict | list):
        return None
    return _node(None, read, 0, [MOST_NODES])


def _read(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _node(name: str | None, value: Any, depth: int, left: list[int]) -> JsonNode:
    left[0] -= 1
    if isinstance(value, dict | list) and depth < MOST_DEPTH:
        pairs = (
            list(value.items())
            if isinstance(value, dict)
            else [(str(number), each) for number, each in enumerate(value)]
        )
        kind, noun = ("object", "field") if isinstance(value, dict) else ("array", "entry")
        plural = {"field": "fields", "entry": "entries"}[noun]
        text = f"{len(pairs):,} {noun if len(pairs) == 1 else plural}"
        node = JsonNode(name, kind, text, is_open=depth < OPEN_DEPTH)
        for key, each in pairs[:MOST_ENTRIES]:
            if left[0] <= 0:
                break
            node.children.append(_node(str(key), each, depth + 1, left))
        node.left_out = len(pairs) - len(node.children)
        return node
    if isinstance(value, str):
        return JsonNode(name, "text", value[:MOST_TEXT], left_out=max(0, len(value) - MOST_TEXT))
    if value is None or isinstance(value, bool):
        return JsonNode(name, "null" if value is None else "flag", json.dumps(value))
    text = json.dumps(value, ensure_ascii=False, default=str)
    kind = "number" if isinstance(value, int | float) else "text"
    return JsonNode(name, kind, text[:MOST_TEXT], left_out=max(0, len(text) - MOST_TEXT))


def text_of(value: Any) -> str:
    """Return a stored value as text. A text is unchanged, any other value is indented JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


@dataclass(frozen=True)
class LongText:
    """The part of a long text that one page shows.

    Attributes:
        blocks: The part, divided into blocks that end at a line break where possible.
        begins: The position of the part's first character in the whole text.
        ends: The position after the part's last character.
        length: The number of characters of the whole text.
    """

    blocks: list[str]
    begins: int
    ends: int
    length: int


def part_of(text: str, begins: int = 0) -> LongText:
    """Return at most PAGE_CHARACTERS of a text, from the character at position ``begins`` on."""
    begins = max(0, min(begins, len(text)))
    part = text[begins : begins + PAGE_CHARACTERS]
    return LongText(list(_blocks(part)), begins, begins + len(part), len(text))


def _blocks(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = at + BLOCK_CHARACTERS
        if end < len(text):
            end = max(text.rfind("\n", at, end) + 1, 0) or end
        yield text[at:end]
        at = end


@dataclass(frozen=True)
class Frames:
    """Consecutive lines of a traceback.

    They are either frames of the flow, or a text for folded frames.

    Attributes:
        text: The lines. For folded frames, a text that names the last frame.
        is_folded: Whether the text stands for frames of Perdure, Python and libraries.
        summary: Text that is shown instead of folded frames, with their number.
    """

    text: str
    is_folded: bool = False
    summary: str = ""


def frames_of(traceback: str) -> list[Frames]:
    """Return the parts of a stored traceback, in order.

    They are frames of the flow, and folded frames.
    """
    parts: list[Frames] = []
    own: list[str] = []
    for line in traceback.split("\n"):
        if (folded := FOLDED.match(line)) is None:
            own.append(line)
            continue
        if own:
            parts.append(Frames("\n".join(own)))
            own = []
        number = int(folded[1])
        summary = f"{number} frame{'' if number == 1 else 's'} of Perdure, Python and libraries"
        parts.append(Frames(f"last: {folded[2]}", True, summary))
    return [*parts, Frames("\n".join(own))] if own else parts


def fields_of_args(args: Any) -> list[tuple[str, str]]:
    """Return the arguments of a command as pairs of name and text, for people.

    A text keeps its line breaks. Any other value becomes JSON. If ``args`` is not a dict, the list
    is empty.
    """
    if not isinstance(args, dict):
        return []
    return [(str(name), text_of(value)) for name, value in args.items()]
