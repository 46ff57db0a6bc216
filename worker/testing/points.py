"""point: a boundary inside a command, for those that do more than one thing to the outside world."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

#: Who is told of points: the story that is being played; None outside of a lab.
watching: ContextVar[Callable[[str], None] | None] = ContextVar("holdfast_lab", default=None)


def point(name: str) -> None:
    """Say that a command is in the middle of its work: the lab puts its faults here too. Outside of a lab it does nothing.

    Call it from what stands in for the outside world, after each effect: ``point("charged")``.
    """
    told = watching.get()
    if told is not None:
        told(name)
