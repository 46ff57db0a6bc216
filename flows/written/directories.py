"""Directories: where files with flows are looked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from flows.written.flow import WrittenFlow

_SUFFIXES = (".yaml", ".yml")


class Directories:
    """The directories that are looked into; a good file is read once, like a module, a bad one is tried again."""

    def __init__(self) -> None:
        self._added: set[str] = set()
        self._shipped: dict[Path, bool] = {}
        self._read: dict[Path, WrittenFlow] = {}

    def add(self, path: Path, shipped: bool) -> None:
        """Look into this directory too; it may be missing."""
        if (given := os.path.abspath(path)) not in self._added:  # asked at each submission, and to resolve it asks the file system
            self._added.add(given)
            self._shipped.setdefault(path.resolve(), shipped)

    def files(self, shipped: bool) -> Iterator[Path]:
        """The files that ship, or the others, in order."""
        for directory in [each for each, ships in self._shipped.items() if ships == shipped]:
            yield from (path for path in sorted(directory.glob("*")) if path.suffix in _SUFFIXES and path.is_file())

    def read(self, path: Path, again: bool = False) -> WrittenFlow:
        """The flow of a file; raises InvalidFlowFile."""
        from flows.written.reading import read_flow  # here: only who has such files needs to read YAML

        path = path.resolve()
        if again or path not in self._read:
            self._read[path] = read_flow(path, self._shipped.get(path.parent, False))
        return self._read[path]
