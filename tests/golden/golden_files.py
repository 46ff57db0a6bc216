"""Golden files: what the product looks like from outside, written down and compared.

A test describes one outside of the product as nested values and calls ``compare``. A line of the
file is one fact: the path of keys to a value, then the value. The lines are sorted by path::

    operations > POST /api/v1/runs > responses > 201: {"content": {"application/json": ...}}

The description names no module and quotes no prose, so moving code and rewriting texts leave the
files unchanged. The product's own name is stored as ``PRODUCT``, so renaming the product leaves
them unchanged too.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest

#: The product's name in code, keys and commands. A rename changes this line and no golden file.
PRODUCT = "perdure"
#: The import names of the product's own packages.
PACKAGES = ("perdure",)
#: Set by ``python -m tests.golden``: write the files instead of comparing with them.
REWRITE = "GOLDEN_REWRITE"
FILES = Path(__file__).parent / "files"
#: Lines of difference that a failing test shows.
MAX_LINES = 200
#: Longer lines are followed by the words that differ: a signature can have 800 columns.
LONG = 100
#: Between two keys of a path, and after its last one. No key contains them.
BELOW, IS = " > ", ": "

_MODULE_PATH = re.compile(r"(?<![\w./-])(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


def compare(name: str, value: dict[str, Any], depth: int | None = None) -> None:
    """Fail with a readable difference unless ``files/NAME.txt`` holds this value.

    Args:
        name: the file's name without its ending.
        value: dicts, lists, sets and scalars. A dict has lines for each key, a set has one for each
            member, everything else is one line.
        depth: keys in a path at most. What is below is JSON in one line.
    """
    actual = as_text(value, depth)
    path = FILES / f"{name}.txt"
    if os.environ.get(REWRITE):
        path.write_text(actual, "utf-8")
        return
    expected = path.read_text("utf-8") if path.exists() else ""
    if actual == expected:
        return
    lines = difference(expected, actual)
    left_out = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    pytest.fail(
        "\n".join(
            [
                f"{name} differs from tests/golden/files/{name}.txt (- expected, + actual):",
                *lines[:MAX_LINES],
                *left_out,
                "If the change is intended, rewrite the file, review it and commit it:",
                f"    .venv/bin/python -m tests.golden {name}",
            ]
        ),
        pytrace=False,
    )


def as_text(value: dict[str, Any], depth: int | None = None) -> str:
    """Return a golden file's text: a line for each fact, the product's name replaced."""
    facts = sorted(_facts(_neutral(value), depth))
    return "".join(f"{BELOW.join(path)}{IS}{text}\n" for path, text in facts)


def facts_of(name: str) -> list[tuple[tuple[str, ...], str]]:
    """Return the facts of a golden file: the path of keys and the value as it is written."""
    return [_split(line) for line in (FILES / f"{name}.txt").read_text("utf-8").splitlines()]


def names_in(name: str, section: str) -> set[str]:
    """Return the keys of one section of a golden file."""
    return {path[1] for path, _ in facts_of(name) if path[0] == section}


def difference(expected: str, actual: str) -> list[str]:
    """Return the lines of one text only, with ``-`` or ``+``, in the order of their paths."""
    unified = difflib.unified_diff(expected.splitlines(), actual.splitlines(), n=0, lineterm="")
    lines = [f"{line[0]} {line[1:]}" for line in list(unified)[2:] if line[0] != "@"]
    lines.sort(key=lambda line: (_split(line[2:])[0], line[0] == "+"))
    shown: list[str] = []
    for before, line in pairwise(["", *lines]):
        shown.append(line)
        (path, old), (same, new) = _split(before[2:]), _split(line[2:])
        if before[:1] + line[0] == "-+" and path == same and len(line) > LONG:
            shown.append(f"? {_differing_words(old, new)}")
    return shown


def without_product(text: str) -> str:
    """Return ``text`` with the product's name replaced in its three spellings."""
    for name, neutral in (
        (PRODUCT.upper(), "PRODUCT"),
        (PRODUCT.title(), "Product"),
        (PRODUCT, "PRODUCT"),
    ):
        text = text.replace(name, neutral)
    return text


def without_modules(text: str) -> str:
    """Return ``text`` with the module path removed from each dotted name."""
    return _MODULE_PATH.sub("", text)


def _facts(
    value: Any, depth: int | None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    is_walked = bool(value) and (depth is None or len(path) < depth)
    if isinstance(value, dict) and is_walked:
        for key, item in value.items():
            assert BELOW not in key and IS not in key, f"{key!r} cannot be part of a path"
            yield from _facts(item, depth, (*path, key))
    elif isinstance(value, set) and is_walked:
        yield from ((path, _written(member)) for member in value)
    else:
        yield path, _written(value)


def _written(value: Any) -> str:
    """Return a text as it is, unless it can be mistaken for JSON; everything else as JSON."""
    if isinstance(value, str) and value.isprintable():
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=sorted)


def _split(line: str) -> tuple[tuple[str, ...], str]:
    path, _, text = line.partition(IS)
    return tuple(path.split(BELOW)), text


def _differing_words(old: str, new: str) -> str:
    """Return ``old -> new`` without the words that both texts begin and end with."""
    words = [re.findall(r"\w+|\W", text) for text in (old, new)]
    for _ in range(2):  # the beginning, then, reversed, the end
        pairs = zip(*words, strict=False)
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        words = [text[alike:][::-1] for text in words]
    return " -> ".join("".join(text) or "nothing" for text in words)


def _neutral(value: Any) -> Any:
    if isinstance(value, str):
        return without_product(value)
    if isinstance(value, dict):
        return {without_product(str(key)): _neutral(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_neutral(item) for item in value]
    if isinstance(value, set | frozenset):
        return {_neutral(item) for item in value}
    return value
