"""Helpers for fields of a stored record: a cached property, and a search by prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class cached_field(Generic[T]):  # noqa: N801 - used like property
    """A property that is computed once per object, without a lock.

    ``functools.cached_property`` has a lock before Python 3.12. The lock costs more than computing
    most of the values that are cached here.
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
    """A search for field names with a prefix.

    It remembers up to about MOST names without the prefix. In most rounds all names of the record
    are among them, and the search then takes a fifth of the time.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._others: set[str] = set()

    def names(self, fields: Mapping[str, str]) -> list[str]:
        """Return the names in ``fields`` that have the prefix, in order."""
        others = self._others
        if others.issuperset(fields):
            return []
        unknown = [name for name in fields if name not in others]
        matching = [name for name in unknown if name.startswith(self.text)]
        if len(matching) < len(unknown) and len(others) < MOST:
            others.update(set(unknown).difference(matching))
        return matching
