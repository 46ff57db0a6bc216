"""Names: things that data can name, such as interfaces, nodes, commands and controllers."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from flows.definition import is_name, known
from flows.errors import InvalidFlow

T = TypeVar("T")


class Names(Generic[T]):
    """Things of one kind, by name.

    Args:
        kind: what they are, in errors: ``interface``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._things: dict[str, T] = {}

    def keep(self, name: str, thing: T) -> T:
        """Register ``thing``; raises InvalidFlow if the name will not do, or another thing has it (a reloaded module's may)."""
        if not is_name(name):
            raise InvalidFlow(f"{name!r} cannot name a {self._kind}; expected letters, digits, '_', '.' or '-', at most 100")
        other = self._things.get(name)
        if other is not None and _origin(other) != _origin(thing):
            raise InvalidFlow(f"two {self._kind}s are named {name!r}: {_origin(other)} and {_origin(thing)}; rename one")
        self._things[name] = thing
        return thing

    def named(self, name: str) -> T:
        """The thing of this name; raises InvalidFlow naming the nearest known one."""
        if name not in self._things:
            path = " (a name under which one is registered; never an import path)" if "." in name or ":" in name else ""
            raise InvalidFlow(f"no {self._kind} is named {name!r}{path}; {known(name, self._things)}")
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        return name in self._things


def _origin(thing: Any) -> str:
    """Where it is written: the same after a reload."""
    return f"{thing.__module__}.{thing.__qualname__}" if hasattr(thing, "__qualname__") else repr(thing)
