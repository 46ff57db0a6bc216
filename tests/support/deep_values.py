"""Values that nest deeper than a program can read."""

from __future__ import annotations

from typing import Any

#: Levels at which a reader that recurses would die, in C or in Python.
DEEP = 100_000


def deep() -> Any:
    value: Any = 1
    for _ in range(DEEP):
        value = [value]
    return value
