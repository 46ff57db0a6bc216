"""A limiter for brief rounds that run at the same time in one process.

Replaces: nothing. Without the limiter, every thread runs its rounds at once. But a brief round
waits only for Python's interpreter lock, of which a process has one. Sixteen threads release the
lock at each request to the server, and run a fifth fewer rounds than three threads. Rounds that
wait for a model or a tool are not limited
(docs/internals/decisions/0027-brief-rounds-go-in-lanes.md).

Worth: 1.2 x brief rounds a second with 16 threads. Rounds a second by threads: 1: 2,900, 3: 3,600,
8: 3,200, 16: 2,900 (two processes on two cores, ``make bench``).

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``), because the limiter only delays the
next round of a run that keeps its worker. With the pool solo, no round ever waits here.

Private parts used: none.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

#: Brief rounds that run at once in a process. While one thread waits for the state server's reply,
#: another computes. The third slot is there because the server also serves one client at a time.
#: Measured with 1, 2, 3, 4, 8 and 16.
SLOTS = 3
#: A node is brief if its last round here took at most this long (ms). A node that waits for
#: anything usually takes longer. If not, three slots still carry as many such rounds as one
#: interpreter can.
BRIEF_MS = 1
#: Seconds after which a thread loses its slot: its round is evidently not CPU-bound.
OVERDUE_SECONDS = 0.01
#: Seconds that a round waits for a slot at most. Then it runs without one.
PATIENCE = 1.0

Node = tuple[str, str]


@dataclass(slots=True, eq=False)
class CpuSlot:
    """The right of a thread to run a brief round.

    Attributes:
        since: When the thread's current round began (``time.monotonic``).
    """

    since: float


class CpuLimiter:
    """The slots for brief rounds in one process.

    A brief round needs a slot. A thread holds at most one.

    Args:
        most: The number of slots.
    """

    def __init__(self, most: int = SLOTS) -> None:
        self._most = most
        self._brief: set[Node] = set()
        self._taken: list[CpuSlot] = []
        self._changed = threading.Condition()
        #: Held by the thread that waits for the next free slot. Other waiting threads do not poll.
        self._next = threading.Lock()
        self._own = threading.local()

    def took(self, flow: str, node: str, ms: int) -> None:
        """Record the duration of a node's last round, which shows whether the node is brief.

        Args:
            ms: The duration in milliseconds.
        """
        if ms <= BRIEF_MS:
            self._brief.add((flow, node))
        else:
            self._brief.discard((flow, node))

    def is_brief(self, flow: str, node: str) -> bool:
        """Return whether a node's last round in this process took at most ``BRIEF_MS``."""
        return (flow, node) in self._brief

    @property
    def inside(self) -> bool:
        """Whether this thread holds a slot.

        If another thread waits for a slot, a thread loses its slot when its round takes longer than
        ``OVERDUE_SECONDS``.
        """
        return getattr(self._own, "slot", None) in self._taken

    def enter(self, patience: float = PATIENCE) -> float:
        """Wait for a slot, unless this thread already holds one.

        Args:
            patience: The longest wait in seconds. After it the thread continues without a slot.

        Returns:
            The seconds that the thread waited.
        """
        began = time.monotonic()
        if self.inside:
            self._own.slot.since = began
            return 0.0
        if self._next.acquire(timeout=patience):
            try:
                self._own.slot = self._next_slot(began + patience)
            finally:
                self._next.release()
        return time.monotonic() - began

    def leave(self) -> None:
        """Free this thread's slot, if it holds one."""
        slot = getattr(self._own, "slot", None)
        if slot is not None:
            self._own.slot = None
            with self._changed:
                if slot in self._taken:
                    self._taken.remove(slot)
                    self._changed.notify()

    def _next_slot(self, until: float) -> CpuSlot | None:
        with self._changed:
            while len(self._taken) >= self._most:
                now = time.monotonic()
                slowest = min(self._taken, key=lambda slot: slot.since)
                overdue = slowest.since + OVERDUE_SECONDS
                if overdue <= now:
                    self._taken.remove(slowest)  # its thread notices when it next checks `inside`
                elif until <= now:
                    return None
                else:
                    self._changed.wait(min(overdue, until) - now)
            self._taken.append(CpuSlot(time.monotonic()))
            return self._taken[-1]
