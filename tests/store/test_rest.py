"""Rest: the time for which a run was interrupted, stopped or errored is added up, so that it does
not count as working time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    LEASE,
    claim,
    commit_next,
    fail_round,
    hash_of,
    later,
    new_run,
    pause_here,
    resume,
    retry,
    stop,
    sweep_after,
)


def interrupted(store: Store) -> None:
    pause_here(store, claim(store))


def stopped(store: Store) -> None:
    stop(store)


def errored(store: Store) -> None:
    fail_round(store, claim(store), fatal=1)


def answered_by_default(store: Store) -> None:
    pause_here(store, claim(store), i_wait="5000", i_default="1")


GOES_ON: dict[Callable[[Store], None], Callable[[Store], Any]] = {
    interrupted: lambda store: resume(store, answer="1"),
    stopped: resume,
    errored: retry,
    answered_by_default: lambda store: sweep_after(store, 0),
}


@pytest.mark.parametrize("rest", GOES_ON)
def test_the_time_at_rest_is_counted_when_the_run_goes_on(
    store: Store, rest: Callable[[Store], None]
) -> None:
    new_run(store)
    later(store, 1_000)
    rest(store)
    later(store, 5_000)
    GOES_ON[rest](store)
    assert hash_of(store)["idle"] == "5000"


def test_rests_that_follow_each_other_are_added_up(store: Store) -> None:
    new_run(store)
    interrupted(store)
    later(store, 300)
    stop(store)
    later(store, 20)
    resume(store)
    later(store, 1)
    resume(store, op="another", answer="1")
    assert hash_of(store)["idle"] == "321"


def test_a_run_on_its_way_is_not_at_rest(store: Store) -> None:
    """Queued, leased, waiting for its next attempt."""
    new_run(store)
    later(store, 1_000)
    fail_round(store, claim(store), delay=1_000)
    sweep_after(store, LEASE)
    commit_next(store, claim(store))
    claim(store)
    assert "idle" not in hash_of(store)
