"""What a flow keeps in a process from one round of a run to the next."""

from __future__ import annotations

from typing import Any


class Kept:
    """Something that a flow keeps in this process between two rounds of a run. Here nothing.

    It is there only if the next round is played by the same process, and no other round of the run
    was committed meanwhile. A flow must be able to do without it.
    """

    def take(self) -> Any:
        """Return what the last round of the run has kept, or None."""

    def keep(self, value: Any) -> None:
        """Keep something for the run's next round. Its method ``close`` is called if none comes."""
        if (close := getattr(value, "close", None)) is not None:
            close()


NOTHING_KEPT = Kept()
