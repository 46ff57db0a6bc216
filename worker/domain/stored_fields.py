"""Fields of a stored record, read at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class cached_field(Generic[T]):  # noqa: N801 - used like property
    """``functools.cached_property`` without its lock.

    Taking the lock costs more than computing most of the values that are cached here. Python
    removed it in version 3.12.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, thing: Any, owner: type) -> T:
        value = thing.__dict__[self._name] = self._function(thing)
        return value


#: Maximum number of remembered names. A run has about fifty fields made by the engine, with equal
#: names in every run; the limit bounds the memory.
MOST = 200


class FieldPrefix:
    """A search for field names with a prefix. It remembers names without it.

    In most rounds no name has the prefix. The search then takes a fifth of the time.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._others: set[str] = set()

    def names(self, fields: Mapping[str, str]) -> list[str]:
        """Return the field names with the prefix, in order."""
        others = self._others
        if others.issuperset(fields):
            return []
        unknown = [name for name in fields if name not in others]
        matching = [name for name in unknown if name.startswith(self.text)]
        if len(matching) < len(unknown) and len(others) < MOST:
            others.update(set(unknown).difference(matching))
        return matching
