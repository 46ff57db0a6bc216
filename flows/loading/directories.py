"""The directories that are searched for flow files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from perdure.flows.loading.yaml_flow import YamlFlow

_SUFFIXES = (".yaml", ".yml")


class Directories:
    """The directories that contain flow files.

    A valid file is read once, like a Python module. An invalid one is read again each time.
    """

    def __init__(self) -> None:
        self._added: set[str] = set()
        self._shipped: dict[Path, bool] = {}
        self._read: dict[Path, YamlFlow] = {}

    def add(self, path: Path, shipped: bool) -> None:
        """Add a directory to search for flow files. It need not exist.

        Another call with the same directory changes nothing.

        Args:
            shipped: whether the flows in the directory come with Perdure.
        """
        # This runs at each submission, so it avoids resolve(), which reads the file system.
        if (absolute := os.path.abspath(path)) not in self._added:
            self._added.add(absolute)
            self._shipped.setdefault(path.resolve(), shipped)

    def files(self, shipped: bool) -> Iterator[Path]:
        """Yield the YAML files of the added directories, sorted within each directory.

        Args:
            shipped: whether to yield the files that come with Perdure. Otherwise the others.
        """
        for directory in [path for path, ships in self._shipped.items() if ships == shipped]:
            yield from (
                file
                for file in sorted(directory.glob("*"))
                if file.suffix in _SUFFIXES and file.is_file()
            )

    def read(self, path: Path, again: bool = False) -> YamlFlow:
        """Return the flow in a YAML file. The file is read only once, unless ``again`` is true.

        Raises:
            InvalidFlowFile: The file is not a valid flow.
        """
        from perdure.flows.loading.load import (
            read_flow,
        )  # imports YAML, which other flows do not need

        path = path.resolve()
        if again or path not in self._read:
            self._read[path] = read_flow(path, self._shipped.get(path.parent, False))
        return self._read[path]
