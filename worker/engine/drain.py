"""The drain state of a worker and its forked processes.

A draining worker takes no new rounds and finishes those it runs.
"""

from __future__ import annotations

import mmap
import time


class Drain:
    """The drain state, in memory shared with forked processes.

    If the pool's processes are no forks (macOS), each has a separate state and does not learn of
    the drain.
    """

    def __init__(self) -> None:
        # Eight aligned bytes are written and read atomically.
        self._since = memoryview(mmap.mmap(-1, 8)).cast("d")

    def begin(self) -> None:
        """Mark this worker as shutting down.

        It takes no new rounds from now on. Further calls do nothing.
        """
        if not self.is_on():
            self._since[0] = time.monotonic()

    def is_on(self) -> bool:
        """Return whether this worker is shutting down."""
        return self._since[0] != 0.0

    @property
    def since(self) -> float:
        """The time at which the shutdown began, or 0 if it has not.

        It is in seconds of ``time.monotonic``, which is one clock for all processes of a machine.
        """
        return self._since[0]
