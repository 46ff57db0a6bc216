"""Whose round a thread plays: what waits for something outside, and was given no context, hears by this that nobody wants it any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CANCELLED: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


@contextmanager
def playing(cancelled: threading.Event) -> Iterator[None]:
    """A round is played inside."""
    before = _CANCELLED.set(cancelled)
    try:
        yield
    finally:
        _CANCELLED.reset(before)


def cancelled_of_round() -> threading.Event | None:
    """The cancel token of the round that is being played; None outside of one."""
    return _CANCELLED.get()
