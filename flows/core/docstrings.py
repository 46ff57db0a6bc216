"""The docstring of a command, split into descriptions of the command and its arguments.

Three styles are read: Google's (``Args:``), NumPy's (a title above a line of dashes) and
reStructuredText's (``:param name:``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

#: Titles of sections about arguments, in lower case.
ARGUMENTS = frozenset(
    {
        "args",
        "arguments",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "parameters",
        "params",
    }
)
#: Titles of sections with which the description ends, in lower case.
SECTIONS = ARGUMENTS | {"raises", "return", "returns", "warns", "yield", "yields"}

_NAMES = r"\*{0,2}(\w+(?:, *\*{0,2}\w+)*)"
_TITLE = re.compile(r"([A-Za-z][A-Za-z ]*):\s*")
_GOOGLE_ENTRY = re.compile(rf"{_NAMES}\s*(?:\(.*?\))?\s*:(?:\s+|$)(.*)")
_NUMPY_ENTRY = re.compile(rf"{_NAMES}(?:\s*:.*)?")
_FIELD = re.compile(r":(\w+)(?:\s+([^:]*))?:\s*(.*)")
#: Fields of reStructuredText that describe an argument.
_PARAMETERS = ("arg", "argument", "key", "keyword", "param", "parameter")
#: Fields of reStructuredText with which the description ends.
_FIELDS = frozenset(
    {*_PARAMETERS, "raise", "raises", "return", "returns", "rtype", "type", "yields"}
)


@dataclass(frozen=True, slots=True)
class CommandText:
    """The texts of a command's docstring.

    Attributes:
        description: the text before the sections about arguments, results and errors.
        arguments: the description of each argument, by name.
    """

    description: str
    arguments: Mapping[str, str] = field(default_factory=dict)


@lru_cache(maxsize=1024)
def read_docstring(docstring: str) -> CommandText:
    """Return the descriptions of a command and its arguments.

    Args:
        docstring: the docstring without the indentation of the code, as ``inspect.getdoc`` returns
            it.
    """
    lines = docstring.strip().splitlines()
    end = next((place for place in range(len(lines)) if _begins_section(lines, place)), len(lines))
    description = "\n".join(lines[:end]).strip()
    return CommandText(description, dict(_entries(lines[end:])))


def _begins_section(lines: Sequence[str], place: int) -> bool:
    return bool(_title(lines, place)) or _rest_field(lines[place]) is not None


def _title(lines: Sequence[str], place: int) -> str:
    """Return the title of the section that begins at a line, in lower case.

    Args:
        place: the index of the line.

    Returns:
        An empty text if no section of ``SECTIONS`` begins there.
    """
    line = lines[place]
    below = lines[place + 1].strip() if place + 1 < len(lines) else ""
    if len(below) >= 3 and not below.strip("-"):
        title = line.strip().lower()
    else:
        found = _TITLE.fullmatch(line)
        title = found[1].lower() if found else ""
    return title if title in SECTIONS else ""


def _rest_field(line: str) -> re.Match[str] | None:
    found = _FIELD.fullmatch(line)
    return found if found is not None and found[1] in _FIELDS else None


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and description of each documented argument.

    Args:
        lines: the part of a docstring that begins with its first section.
    """
    place = 0
    while place < len(lines):
        found = _rest_field(lines[place])
        if found is not None:
            end = _end_of_block(lines, place)
            name = (found[2] or "").split()[-1:]
            if found[1] in _PARAMETERS and name:
                yield name[0].lstrip("*"), _text([found[3], *lines[place + 1 : end]])
            place = end
            continue
        title = _title(lines, place)
        if not title:
            place += 1
            continue
        is_numpy = not lines[place].rstrip().endswith(":")
        begin = place + (2 if is_numpy else 1)
        end = next(
            (number for number in range(begin, len(lines)) if _ends(lines, number, is_numpy)),
            len(lines),
        )
        if title in ARGUMENTS:
            yield from _section(lines[begin:end], _NUMPY_ENTRY if is_numpy else _GOOGLE_ENTRY)
        place = end


def _ends(lines: Sequence[str], place: int, is_numpy: bool) -> bool:
    """Return whether a section ends before a line.

    Args:
        place: the index of the line.
        is_numpy: whether the section has NumPy's style. Otherwise it has Google's.
    """
    if is_numpy:  # Its entries are not indented, so only the next title ends it.
        below = lines[place + 1].strip() if place + 1 < len(lines) else ""
        return len(below) >= 3 and not below.strip("-")
    return bool(lines[place].strip()) and not lines[place].startswith((" ", "\t"))


def _end_of_block(lines: Sequence[str], place: int) -> int:
    """Return the index of the first line after the indented block that follows a line.

    Args:
        place: the index of the line before the block.
    """
    end = place + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith((" ", "\t"))):
        end += 1
    return end


def _section(lines: Sequence[str], entry: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield a section's arguments, each with its description.

    Args:
        lines: the section without its title.
        entry: the pattern of a line that begins an argument.
    """
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip())
    names: list[str] = []
    text: list[str] = []
    for line in lines:
        own = line[indent:]
        found = None if own[:1].isspace() else entry.fullmatch(own.rstrip())
        if found is None:
            text.append(line)
            continue
        yield from ((name, _text(text)) for name in names)
        names = [name.strip().lstrip("*") for name in found[1].split(",")]
        text = [found[2]] if entry is _GOOGLE_ENTRY else []
    yield from ((name, _text(text)) for name in names)


def _text(lines: Sequence[str]) -> str:
    """Return the lines of a description as one line."""
    return " ".join(" ".join(lines).split())
