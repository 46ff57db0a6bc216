"""Faults of a flow file. Each fault names the file, the line and the key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perdure.flows.core.errors import InvalidFlow

#: The path of a value in the data: keys of mappings and positions in lists.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class FileFault:
    """One fault of a file.

    Attributes:
        file: The file, as error texts name it.
        line: The line, counted from 1.
        key: The path of the key, such as ``topology[2].flow``. Empty if the fault concerns no key.
        message: The fault, as a sentence.
    """

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return (
            f"{self.file}, line {self.line}{f', key {self.key}' if self.key else ''}: "
            f"{self.message}"
        )


class InvalidFlowFile(InvalidFlow):
    """Raised for a file that is not a valid flow. ``faults`` has all faults, in order of lines."""

    def __init__(self, faults: Sequence[FileFault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.line))
        super().__init__("\n".join(str(fault) for fault in self.faults))


class FileFaults:
    """The faults collected from one file.

    A path is here the position of a value in the file's data (``Place``).

    Args:
        file: The file, as error texts name it.
        lines: The line at which each value begins, by its path.

    Attributes:
        found: The recorded faults.
        blamed: Paths for which a fault was recorded and the value was removed or replaced. Further
            faults at or below them are only consequences, and ``add`` ignores them.
        renamed: The misspelt key in the file, by the path of the key that was meant.
        starts: The names of flows that the file's flow starts, by the path of each name. They are
            collected for ``YamlFlow.starts``, with which ``started_flows`` checks them.
    """

    def __init__(self, file: str, lines: dict[Place, int]) -> None:
        self._file = file
        self._lines = lines
        self.found: list[FileFault] = []
        self.blamed: set[Place] = set()
        self.renamed: dict[Place, str] = {}
        self.starts: dict[Place, str] = {}

    def add(self, place: Place, message: str, key: bool = False) -> None:
        """Record a fault at ``place`` in a file's data.

        A fault at or below a path in ``blamed`` is ignored. If the data has no such path, the line
        is that of the nearest enclosing value.

        Args:
            place: The path of the wrong value.
            key: Whether the last key of the path is wrong, independent of its value. The fault is
                then recorded even if the path itself is in ``blamed``.
        """
        if any(
            place[: len(blamed)] == blamed
            for blamed in self.blamed
            if not (key and blamed == place)
        ):
            return
        place = tuple(
            self.renamed.get(place[: number + 1], step) for number, step in enumerate(place)
        )
        self.found.append(self.fault(place, message))

    def fault(self, place: Place, message: str) -> FileFault:
        """Return a fault at ``place`` with its line. The fault is not recorded.

        Args:
            place: A path in the data of a flow file. If the data has no such path, the line is that
                of the nearest enclosing value.
        """
        around = next(
            place[:length]
            for length in range(len(place), -1, -1)
            if place[:length] in self._lines or not length
        )
        return FileFault(self._file, self._lines.get(around, 1), shown(place), message)

    @contextmanager
    def at(self, *place: str | int, key: bool = False) -> Iterator[None]:
        """Record an InvalidFlow that the ``with`` block raises as a fault.

        The exception is swallowed, and execution goes on after the block. Other exceptions are
        raised.

        Args:
            place: The path of the fault, one argument for each step.
            key: See ``add``.
        """
        try:
            yield
        except InvalidFlow as error:
            self.add(place, str(error), key)

    @property
    def nodes_are_known(self) -> bool:
        """Whether the file's topology and all names of its nodes were read without a fault."""
        return not any(
            place[0] == "topology" and (len(place) < 3 or place[2] == "name")
            for place in self.blamed
            if place
        )

    def check(self) -> None:
        """Raise InvalidFlowFile if faults were recorded."""
        if self.found:
            raise InvalidFlowFile(self.found)


def shown(place: Place) -> str:
    """Return a value's path as text, such as ``topology[2].flow``."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in place
    ).removeprefix(".")


def shown_path(path: Path) -> str:
    """Return a file's path for people. A file below the working directory gets a relative path."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
