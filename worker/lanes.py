"""Lanes: of a process's threads a few go from one brief round to the next, and the others wait their turn.

Brief rounds wait for nothing but the interpreter, of which a process has one. Sixteen threads that want it hand it around at each call to
the server, and play a fifth fewer rounds than three do. Rounds that wait for a model or a tool are played beside them, however many
(docs/decisions/0027-brief-rounds-go-in-lanes.md).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

#: While one waits for the server's answer the next computes; one more, since the server, too, takes turns. Measured with 1, 2, 3, 4, 8, 16.
LANES = 3
#: A node is brief where its last round here took no longer (ms). One that waits for anything takes longer, mostly; where it does not, three
#: lanes still carry as many such rounds as one interpreter can.
BRIEF_MS = 1
#: Who takes longer over a round in a lane than this (seconds) waits for something after all, and its lane is another's.
OVERDUE_SECONDS = 0.01
#: So long a round waits for a lane at most (seconds), then it is played without.
PATIENCE = 1.0

Node = tuple[str, str]


@dataclass(slots=True, eq=False)
class Lane:
    """One that is taken: when its round began."""

    since: float


class Lanes:
    """The lanes of one process. A thread has one of them or none."""

    def __init__(self, most: int = LANES) -> None:
        self._most = most
        self._brief: set[Node] = set()
        self._taken: list[Lane] = []
        self._changed = threading.Condition()
        #: Held by the one that waits for the next free lane; those behind need not look.
        self._next = threading.Lock()
        self._own = threading.local()

    def took(self, flow: str, node: str, ms: int) -> None:
        """A round of this node took so long."""
        if ms <= BRIEF_MS:
            self._brief.add((flow, node))
        else:
            self._brief.discard((flow, node))

    def is_brief(self, flow: str, node: str) -> bool:
        """Whether the node's last round was."""
        return (flow, node) in self._brief

    @property
    def inside(self) -> bool:
        """Whether this thread has a lane."""
        return getattr(self._own, "lane", None) in self._taken

    def enter(self, patience: float = PATIENCE) -> float:
        """A round begins that is to be played in a lane: in the one that this thread has, else in the next that is free.

        Args:
            patience: seconds; a round that finds no lane in that time is played without.

        Returns:
            Seconds that it has waited.
        """
        asked = time.monotonic()
        if self.inside:
            self._own.lane.since = asked
            return 0.0
        if self._next.acquire(timeout=patience):
            try:
                self._own.lane = self._found(asked + patience)
            finally:
                self._next.release()
        return time.monotonic() - asked

    def leave(self) -> None:
        """Make room, where this thread has a lane."""
        lane = getattr(self._own, "lane", None)
        if lane is not None:
            self._own.lane = None
            with self._changed:
                if lane in self._taken:
                    self._taken.remove(lane)
                    self._changed.notify()

    def _found(self, until: float) -> Lane | None:
        with self._changed:
            while len(self._taken) >= self._most:
                now = time.monotonic()
                slowest = min(self._taken, key=lambda lane: lane.since)
                overdue = slowest.since + OVERDUE_SECONDS
                if overdue <= now:
                    self._taken.remove(slowest)  # whose it was finds out when it next looks for it
                elif until <= now:
                    return None
                else:
                    self._changed.wait(min(overdue, until) - now)
            self._taken.append(Lane(time.monotonic()))
            return self._taken[-1]
