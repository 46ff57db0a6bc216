"""That a worker leaves is known in the processes forked from it, and what it asks the server is not sent again."""

from __future__ import annotations

import copy
import os

import pytest

from perdure.worker.engine.drain import Drain
from perdure.worker.store.connection import BACKOFF_CAP, Backoff


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


def test_told_twice_it_leaves_since_the_first_time() -> None:
    draining = Drain()
    draining.begin()
    since = draining.since
    draining.begin()
    assert draining.since == since


def test_while_the_process_leaves_a_failure_is_not_waited_for() -> None:
    leaves = False
    backoff = copy.deepcopy(Backoff(lambda: leaves))  # as redis-py does
    error = ConnectionError("away")
    try:
        raise error
    except ConnectionError:
        assert 0.0 <= backoff.compute(3) <= BACKOFF_CAP
        leaves = True
        with pytest.raises(ConnectionError) as raised:
            backoff.compute(3)
    assert raised.value is error
