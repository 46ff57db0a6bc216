"""What is wrong with a file: sentences that name the file, the line and the key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.errors import InvalidFlow

#: A place in the data: keys of mappings and positions in lists.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong; ``key`` is like ``topology[2].flow``, and empty where no key is concerned."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}{f', key {self.key}' if self.key else ''}: {self.message}"


class InvalidFlowFile(InvalidFlow):
    """A file that is no flow; ``faults`` has all that was found wrong with it, in the order of its lines."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.line))
        super().__init__("\n".join(str(fault) for fault in self.faults))


class Faults:
    """Collects what is wrong with one file.

    Args:
        file: where it is, as people should read it.
        lines: the line at which each place of the data begins.

    Attributes:
        blamed: places at which a fault was told and that were mended; what is wrong there now only follows from it.
        renamed: places that are called otherwise in the file: the misspelt key that stands there.
    """

    def __init__(self, file: str, lines: dict[Place, int]) -> None:
        self._file = file
        self._lines = lines
        self.found: list[Fault] = []
        self.blamed: set[Place] = set()
        self.renamed: dict[Place, str] = {}

    def add(self, place: Place, message: str, key: bool = False) -> None:
        """Something is wrong at ``place``; if the data has no such place, the line is that of the nearest one around it.

        Args:
            key: it is the last key of the place that is wrong, whatever its value is.
        """
        if any(place[: len(blamed)] == blamed for blamed in self.blamed if not (key and blamed == place)):
            return
        place = tuple(self.renamed.get(place[: number + 1], step) for number, step in enumerate(place))
        around = next(place[:length] for length in range(len(place), -1, -1) if place[:length] in self._lines or not length)
        self.found.append(Fault(self._file, self._lines.get(around, 1), shown(place), message))

    @contextmanager
    def at(self, *place: str | int, key: bool = False) -> Iterator[None]:
        """An InvalidFlow raised inside concerns ``place``; ``key`` as for ``add``."""
        try:
            yield
        except InvalidFlow as error:
            self.add(place, str(error), key)

    @property
    def nodes_are_known(self) -> bool:
        """Whether the names of all nodes are those that were written."""
        return not any(place[0] == "topology" and (len(place) < 3 or place[2] == "name") for place in self.blamed if place)

    def check(self) -> None:
        """Raise InvalidFlowFile if anything was found."""
        if self.found:
            raise InvalidFlowFile(self.found)


def shown(place: Place) -> str:
    """A place in words: ``topology[2].flow``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def shown_path(path: Path) -> str:
    """A path as people should read it: relative where it lies below the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
