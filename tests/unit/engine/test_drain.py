"""A worker that leaves: since when it does, and its requests to the server are not repeated."""

from __future__ import annotations

import copy

import pytest

from perdure.worker.engine.drain import Drain
from perdure.worker.store.connection import BACKOFF_CAP, Backoff


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
