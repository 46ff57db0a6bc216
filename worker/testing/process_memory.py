"""ProcessMemory: what a flow keeps in its process and ought not to, so that a worker which dies can take it along.

A flow holds no state of a run. One that does (in a class attribute, in a controller, in an object that was registered) works as long as
one process plays all rounds. The lab has one process too, so it puts back what another worker would have: the plain data (lists,
dicts, sets, numbers, texts) that the flow's classes and controllers had before the story. Modules are left alone: in tests the
outside world often lives there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from flows.base import Flow
from flows.controllers import Controller
from worker.testing.story import short

#: Packages whose classes keep nothing of a run.
OURS = ("flows", "worker", "builtins", "abc", "typing")
SCALARS = (str, int, float, bool, type(None))
#: By owner and attribute: the object that was there, and a copy of what it held.
Kept = dict[tuple[int, str], tuple[Any, Any]]


class ProcessMemory:
    """The plain attributes of a flow's classes and controllers."""

    def __init__(self, flow: Flow) -> None:
        classes = [each for each in type(flow).__mro__ if each.__module__.partition(".")[0] not in OURS]
        found: list[Any] = [*classes, flow]
        for owner in list(found):
            found += [value for value in vars(owner).values() if isinstance(value, Controller)]
        self._owners = {id(owner): owner for owner in found if hasattr(owner, "__dict__")}
        self._start = self.capture()

    def capture(self) -> Kept:
        """What is there now."""
        return {place: (value, copy.deepcopy(value)) for place, value in self._attributes()}

    def changes(self) -> list[str]:
        """What is there now and was not at the start, as ``Shop.seen = ['book']``."""
        told = []
        for (owner, name), value in self._attributes():
            before = self._start.get((owner, name))
            if before is None or before[1] != value:
                told.append(f"{_title(self._owners[owner])}.{name} = {short(value)}")
        return told

    def restore(self, kept: Kept | None = None) -> None:
        """Put back what was there: at the start, or when ``kept`` was captured."""
        wanted = self._start if kept is None else kept
        for (owner, name), _ in list(self._attributes()):
            if (owner, name) not in wanted:
                delattr(self._owners[owner], name)
        for (owner, name), (value, held) in wanted.items():
            _refill(value, copy.deepcopy(held))
            if vars(self._owners[owner]).get(name) is not value:
                setattr(self._owners[owner], name, value)

    def _attributes(self) -> Iterator[tuple[tuple[int, str], Any]]:
        for place, owner in self._owners.items():
            for name, value in list(vars(owner).items()):
                if not name.startswith("__") and _is_plain(value):
                    yield (place, name), value


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, list | set | tuple | frozenset):
        return all(map(_is_plain, value))
    return type(value) in SCALARS


def _refill(container: Any, held: Any) -> None:
    """In place: a registered flow's copies share what it holds."""
    if isinstance(container, list):
        container[:] = held
    elif isinstance(container, dict | set):
        container.clear()
        container.update(held)


def _title(owner: Any) -> str:
    return str(getattr(owner, "__name__", type(owner).__name__))
