"""The drain state of a worker and of its pool processes.

A draining worker begins no new rounds, and finishes its current rounds.
"""

from __future__ import annotations

import mmap
import time


class Drain:
    """A worker's drain state, which forked processes share.

    If the pool's processes are not forked (macOS), each has a state of its own, and does not notice
    that the worker drains.
    """

    def __init__(self) -> None:
        # Eight aligned bytes are written and read atomically.
        self._since = memoryview(mmap.mmap(-1, 8)).cast("d")

    def begin(self) -> None:
        """Mark this worker as shutting down. From now on, it begins no new rounds.

        Further calls do nothing.
        """
        if not self.is_on():
            self._since[0] = time.monotonic()

    def is_on(self) -> bool:
        """Return whether this worker is shutting down."""
        return self._since[0] != 0.0

    @property
    def since(self) -> float:
        """The time at which the shutdown began. 0 if it has not begun.

        It is in seconds of ``time.monotonic``, which is one clock for all processes of a machine.
        """
        return self._since[0]
