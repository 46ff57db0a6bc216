"""Data that a flow wrongly keeps in its process. If the worker dies, the data is lost.

A flow must not hold state of a run. A flow that does (in a class attribute, in a controller, in a
registered object) works as long as one process runs all rounds. The lab has only one process too.
So when the lab simulates another worker, it restores the data that another worker would have: the
plain data (lists, dicts, sets, numbers, texts) of the flow's classes and controllers before the
story. Data in modules is not restored, because in tests it often is the outside world.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from perdure.flows.commands.controller import Controller
from perdure.flows.rounds.flow import Flow
from perdure.worker.testing.story import short

#: Packages without data of a run in their classes.
OURS = ("perdure", "builtins", "abc", "typing")
SCALARS = (str, int, float, bool, type(None))
#: By the ``id`` of a class or object and an attribute's name: the attribute's value, and a copy.
Kept = dict[tuple[int, str], tuple[Any, Any]]


class ProcessMemory:
    """The plain attributes of a flow, its classes and its controllers."""

    def __init__(self, flow: Flow) -> None:
        classes = [
            each for each in type(flow).__mro__ if each.__module__.partition(".")[0] not in OURS
        ]
        owners: list[Any] = [*classes, flow]
        for owner in list(owners):
            owners += [value for value in vars(owner).values() if isinstance(value, Controller)]
        self._owners = {id(owner): owner for owner in owners if hasattr(owner, "__dict__")}
        self._start = self.capture()

    def capture(self) -> Kept:
        """Return a copy of the attributes' current values, for ``restore``."""
        return {place: (value, copy.deepcopy(value)) for place, value in self._attributes()}

    def changes(self) -> list[str]:
        """Return the attributes that have changed since this object was created.

        Each attribute is a text such as ``Shop.seen = ['book']``.
        """
        changes = []
        for (owner, name), value in self._attributes():
            before = self._start.get((owner, name))
            if before is None or before[1] != value:
                changes.append(f"{_title(self._owners[owner])}.{name} = {short(value)}")
        return changes

    def restore(self, captured: Kept | None = None) -> None:
        """Restore the attributes.

        Args:
            captured: The values to restore, a result of ``capture``. None: the values when this
                object was created.
        """
        target = self._start if captured is None else captured
        for (owner, name), _ in list(self._attributes()):
            if (owner, name) not in target:
                delattr(self._owners[owner], name)
        for (owner, name), (value, held) in target.items():
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
    """Replace the content of a list, dict or set by the content of ``held``.

    The container remains the same object, because copies of a registered flow share it. If
    ``container`` has another type, nothing happens.
    """
    if isinstance(container, list):
        container[:] = held
    elif isinstance(container, dict | set):
        container.clear()
        container.update(held)


def _title(owner: Any) -> str:
    return str(getattr(owner, "__name__", type(owner).__name__))
