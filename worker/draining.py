"""Draining: a worker that was told to leave takes nothing new and ends its last rounds. The processes that its pool forked know it too."""

from __future__ import annotations

import mmap
import time


class Draining:
    """Whether and since when a worker leaves, in memory that it shares with the processes forked from it.

    Where a pool's processes are no forks (macOS), each has one of its own, and does not hear of it.
    """

    def __init__(self) -> None:
        self._since = memoryview(mmap.mmap(-1, 8)).cast("d")  # eight aligned bytes: written and read in one

    def begin(self) -> None:
        """From now on the worker leaves; to be called once more is no harm."""
        if not self.is_on():
            self._since[0] = time.monotonic()

    def is_on(self) -> bool:
        """Whether the worker leaves."""
        return self._since[0] != 0.0

    @property
    def since(self) -> float:
        """When it was told to (seconds of ``time.monotonic``, one clock for all processes of a machine); 0 where it was not."""
        return self._since[0]
