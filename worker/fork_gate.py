"""Delay of forks in a worker until its background threads hold no lock.

A forked process copies every lock, also a lock that another thread holds at that moment. The new
process has no thread that releases the copy. Modules under import, Python's ``cached_property``
before 3.12 and connection pools have locks. So a fork waits until each background thread is between
two pieces of work.
"""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from weakref import WeakSet

#: Seconds that a fork waits at most. A thread that takes longer waits for a server, which rarely
#: happens under a lock that the new process needs.
PATIENCE_SECONDS = 1.0


class ForkGate:
    """A context manager that delays forks of this process while its block runs.

    Each background thread has its own gate, and runs each piece of work in a block of the gate. So
    the threads do not wait for one another. A fork waits at most ``PATIENCE_SECONDS``, and then
    happens nevertheless.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _gates.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def _close(self, patience: float) -> bool:
        return self._lock.acquire(timeout=max(0.0, patience))

    def _open(self) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()


class _Closed(threading.local):
    """The gates that the forking thread has locked for the time of its fork."""

    def __init__(self) -> None:
        self.gates: list[ForkGate] = []


_gates: WeakSet[ForkGate] = WeakSet()
_closed = _Closed()


def _before() -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    _closed.gates = [gate for gate in list(_gates) if gate._close(end - time.monotonic())]


def _in_parent() -> None:
    while _closed.gates:
        _closed.gates.pop()._open()


def _in_child() -> None:
    _closed.gates.clear()
    for gate in list(_gates):
        gate._renew()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
