"""The work that all sides do: runs of empty rounds, each of which leaves a new state behind."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Rounds of a run.
ROUNDS = 30
#: Bytes of state: a few named values, and a short conversation.
SIZES = (500, 10_000)
#: How many rounds one process plays at once where threads play them: Holdfast's default, given to every side that has threads.
THREADS = 16


@dataclass(frozen=True)
class Work:
    """What one side does in one pass.

    Attributes:
        runs: started one after the other as fast as the side's own client can.
        size: bytes of state that each round writes, all of them new.
        processes: what plays the rounds; as many as there are cores, unless this is what is measured.
        rounds: of each run.
    """

    runs: int
    size: int = SIZES[0]
    processes: int = 2
    rounds: int = ROUNDS

    def of(self, **changes: int) -> Work:
        """The same with these changes."""
        return replace(self, **changes)


def state_after(done: int, size: int) -> str:
    """The state that a run has after so many rounds: no two are equal, so that none can be spared."""
    return f"{done:08d}".ljust(size, "x")
