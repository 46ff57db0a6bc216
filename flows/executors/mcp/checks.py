"""Checks of arguments by a server's JSON schema that a hostile schema cannot prolong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

#: Keywords that one check may evaluate. A schema of a thousand properties takes a few thousand.
STEPS = 100_000
#: Left to the server, which checks its arguments too. A pattern is matched under the interpreter's lock, and may
#: backtrack for hours: heartbeats and signals would stop. The others match patterns as well, or compare each item with each.
UNCHECKED = ("pattern", "patternProperties", "unevaluatedProperties", "uniqueItems")

_steps: ContextVar[Iterator[int]] = ContextVar("steps")


class TooManySteps(Exception):
    """A check went over ``STEPS``: references can nest a small schema into billions of checks."""


@contextmanager
def counting() -> Iterator[None]:
    """Count the steps of the checks inside."""
    before = _steps.set(count())
    try:
        yield
    finally:
        _steps.reset(before)


def bounded(kind: Any) -> Any:
    """Return the validator class of jsonschema with bounded checks; they raise TooManySteps inside ``counting``."""
    from jsonschema.validators import extend

    checks = {name: _counted(check) for name, check in kind.VALIDATORS.items() if name not in UNCHECKED}
    if "additionalProperties" in checks:
        checks["additionalProperties"] = _counted(_additional(kind.VALIDATORS["additionalProperties"]))
    return extend(kind, {**checks, **dict.fromkeys(UNCHECKED, _accept)})


def _accept(validator: Any, value: Any, instance: Any, schema: Any) -> None:
    """Find no fault."""


def _additional(check: Callable[..., Any]) -> Callable[..., Any]:
    """Check additional properties, unless patterns say which ones are additional."""

    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        return () if "patternProperties" in schema else check(validator, value, instance, schema)

    return checked


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if next(_steps.get()) >= STEPS:
            raise TooManySteps
        return check(validator, value, instance, schema)

    return counted
