"""The work that all sides do: runs of empty rounds, each of which leaves a new state."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Rounds of a run.
ROUNDS = 30
#: Bytes of state: a few named values, and a short conversation.
SIZES = (500, 10_000)
#: Rounds that one process plays at once in threads: Perdure's default, used by every side that has
#: threads.
THREADS = 16


@dataclass(frozen=True)
class Work:
    """One side's work in one pass.

    Attributes:
        runs: Started one after the other, as fast as the side's own client can.
        size: Bytes of state that each round writes, all of them new.
        processes: Processes that play the rounds; as many as cores, unless their number is
            measured.
        rounds: Of each run.
    """

    runs: int
    size: int = SIZES[0]
    processes: int = 2
    rounds: int = ROUNDS

    def of(self, **changes: int) -> Work:
        """Return the same work with these changes."""
        return replace(self, **changes)


def state_after(done: int, size: int) -> str:
    """Return the state of a run after ``done`` rounds.

    No two states are equal, so that none can be skipped.
    """
    return f"{done:08d}".ljust(size, "x")
