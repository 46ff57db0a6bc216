"""The cache of an object between two rounds of a run, in one process."""

from __future__ import annotations

from typing import Any


class Kept:
    """A cache of one object between two rounds of a run. This default stores nothing.

    The object is available only if the same process plays the next round, and no other round of the
    run was committed meanwhile. A flow must be able to do without it.
    """

    def take(self) -> Any:
        """Remove and return the object that the previous round stored. None if there is none."""

    def keep(self, value: Any) -> None:
        """Store an object for the run's next round. This default only closes the object.

        An object that no round takes is closed, if it has a method ``close``.
        """
        if (close := getattr(value, "close", None)) is not None:
            close()


NOTHING_KEPT = Kept()
