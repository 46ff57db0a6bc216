"""The state that a forked process has for itself, and the state that it shares with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from perdure.worker import fork_gate
from perdure.worker.engine.drain import Drain
from perdure.worker.fork_gate import ForkGate
from perdure.worker.store.outage import Outage
from tests.support.outages import AWAY, outage

__all__ = ["outage"]

#: A parent and the child that it forked, as the processes of a pool are, each say their next id.
FORKED = """
import sys
from {library} import Process
from perdure.worker.ids import new_digits

def say():
    print(new_digits(32), flush=True)

new_digits(32)
child = Process(target=say)
child.start()
child.join()
say()
"""


@pytest.mark.parametrize("library", ["multiprocessing", "billiard"])
def test_a_forked_process_makes_others_than_its_parent(library: str) -> None:
    program = FORKED.format(library=library)
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    ).stdout.split()
    assert len(found) == len(set(found)) == 2, found


def test_a_forked_process_begins_anew(outage: Outage) -> None:
    outage.failed("sweep", AWAY)
    child = os.fork()
    if child == 0:
        outage.passed("beat")
        os._exit(1 if outage.is_on else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert outage.is_on


def test_a_process_forked_before_knows_that_the_worker_leaves_and_since_when() -> None:
    draining = Drain()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0 if draining.is_on() and draining.since > 0.0 else 1)
    assert not draining.is_on() and draining.since == 0.0
    draining.begin()
    os.write(writing, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for each in (reading, writing):
        os.close(each)


def test_no_process_is_forked_while_a_background_thread_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process would have a copy of the thread's lock that is never released."""
    gate, lock = ForkGate(), threading.Lock()
    works, fork_waits = threading.Event(), threading.Event()
    close = ForkGate._close

    def close_later(self: ForkGate, patience: float) -> bool:
        if self is gate:
            fork_waits.set()
        return close(self, patience)

    monkeypatch.setattr(ForkGate, "_close", close_later)

    def work() -> None:
        with gate, lock:
            works.set()
            fork_waits.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert works.wait(10)
    child = os.fork()
    if child == 0:
        if not lock.acquire(timeout=1):
            os._exit(1)
        with gate:  # the child has a gate of its own
            os._exit(0)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with gate:  # it is open again
        pass


def test_a_fork_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_gate, "PATIENCE_SECONDS", 0.05)
    gate = ForkGate()
    works, is_done = threading.Event(), threading.Event()

    def work() -> None:
        with gate:
            works.set()
            assert is_done.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert works.wait(10)
    child = os.fork()
    if child == 0:
        with gate:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    is_done.set()
    thread.join()
