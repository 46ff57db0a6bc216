"""kept: a property that is worked out once an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class kept(Generic[T]):  # noqa: N801 - used like property
    """``functools.cached_property`` without its lock, which takes longer than most that is kept by it (and is gone from Python 3.12 on)."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, thing: Any, owner: type) -> T:
        found = thing.__dict__[self._name] = self._function(thing)
        return found
