"""Objects that a flow keeps in a process between two rounds of a run."""

from __future__ import annotations

from typing import Any


class Kept:
    """An object kept in this process between two rounds. This default keeps nothing.

    It is available only if the same process plays the next round, and no other round of the run was
    committed meanwhile. A flow must be able to do without it.
    """

    def take(self) -> Any:
        """Return the object kept by the last round, or None."""

    def keep(self, value: Any) -> None:
        """Keep an object for the run's next round. If none comes, its ``close`` is called."""
        if (close := getattr(value, "close", None)) is not None:
            close()


NOTHING_KEPT = Kept()
