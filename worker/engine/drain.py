"""The drain state of a worker, shared with the processes that its pool forked.

A draining worker takes no new rounds and finishes those it runs.
"""

from __future__ import annotations

import mmap
import time


class Drain:
    """Whether and since when a worker drains, in memory shared with its forked processes.

    If the pool's processes are no forks (macOS), each has a state of its own and does not learn of
    the drain.
    """

    def __init__(self) -> None:
        # Eight aligned bytes are written and read atomically.
        self._since = memoryview(mmap.mmap(-1, 8)).cast("d")

    def begin(self) -> None:
        """Mark this worker as shutting down, so that it takes no new rounds.

        Further calls do nothing.
        """
        if not self.is_on():
            self._since[0] = time.monotonic()

    def is_on(self) -> bool:
        """Return whether this worker is shutting down and takes no new rounds."""
        return self._since[0] != 0.0

    @property
    def since(self) -> float:
        """The time at which this worker began to shut down, or 0 if it has not.

        It is in seconds of ``time.monotonic``, which is one clock for all processes of a machine.
        """
        return self._since[0]
