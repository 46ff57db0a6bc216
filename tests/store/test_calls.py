"""Calls at the end of a run (``on_end``): kept in the write that ends it, and returned by sweeps
until the call is out.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import ClaimRefused, Store
from perdure.worker.store.replies import SweepReply
from tests.support.runs import (
    RETENTION,
    advance,
    assert_lawful,
    claim,
    clock,
    commit,
    commit_end,
    commit_next,
    events,
    fail_round,
    hash_of,
    later,
    new_run,
    pause_end,
    pause_here,
    phase,
    resume,
    retry,
    stop,
    submit,
    sweep,
    take,
    try_claim,
)

ASKED = {"fields": {"on_end": '{"task":"t"}'}}
LATE, AGAIN = 5_001, 25_000


def kept(store: Store) -> list[tuple[str, float]]:
    """Return the calls that are still to be made, and from when on they are late."""
    found: list[tuple[str, float]] = store.redis.zrange(store.keys.endings, 0, -1, withscores=True)
    return [(name, at) for name, at in found]


def calls(store: Store, **options: object) -> list[tuple[str, int]]:
    """Return the calls that a sweep has to make."""
    swept: SweepReply = store.fleet.sweep(
        **{"lease": 4_000, "max_losses": 3, "jitter": 0.0, **options}
    )  # type: ignore[arg-type]
    return swept.calls


def completes(store: Store) -> None:
    assert commit_end(store, claim(store)) == ("ok", "completed")


def errs(store: Store) -> None:
    assert fail_round(store, claim(store), max_failures=1) == ("ok", "errored")


def is_quarantined_by_its_round(store: Store) -> None:
    assert commit(store, claim(store), "damaged", error="damaged") == ("ok", "errored")


def is_quarantined_by_a_sweep(store: Store) -> None:
    fields = hash_of(store)
    assert store.rounds.quarantine(
        "r", epoch="0", step="0", message=fields["message"], error="unplayable"
    ) == ["ok"]


def is_stopped_while_queued(store: Store) -> None:
    assert stop(store)[0] == "stopped"


def is_stopped_at_once_in_its_round(store: Store) -> None:
    claim(store)
    assert stop(store, "now")[0] == "stopped"


def is_stopped_by_the_commit(store: Store) -> None:
    granted = claim(store)
    assert stop(store)[0] == "asked"
    assert commit_next(store, granted) == ("ok", "stopped")


def is_stopped_by_a_claim(store: Store) -> None:
    store.redis.hset(
        store.keys.run("r"),
        mapping={"stop_current_execution": "stop_requested", "stop_mode": "graceful"},
    )
    assert try_claim(store) == ClaimRefused("stopped")


def is_stopped_by_a_sweep(store: Store) -> None:
    claim(store)
    stop(store)
    advance(store, 4_001)
    assert sweep(store) == [("r", "stopped")]


def loses_too_many_workers(store: Store) -> None:
    claim(store)
    advance(store, 4_001)
    assert sweep(store, max_losses=0) == [("r", "errored")]


def completes_behind_a_pause(store: Store) -> None:
    assert pause_end(store, claim(store)) == ("ok", "interrupted")
    assert kept(store) == []
    assert resume(store) == ["completed"]


ENDS = (
    completes, errs, is_quarantined_by_its_round, is_quarantined_by_a_sweep, is_stopped_while_queued, is_stopped_at_once_in_its_round,
    is_stopped_by_the_commit, is_stopped_by_a_claim, is_stopped_by_a_sweep, loses_too_many_workers, completes_behind_a_pause,
)  # fmt: skip
each_end = pytest.mark.parametrize("ends", ENDS, ids=lambda end: end.__name__)


@each_end
def test_every_end_keeps_who_is_to_be_called(store: Store, ends: Callable[[Store], None]) -> None:
    new_run(store, **ASKED)
    ends(store)
    assert kept(store) == [(f"r {hash_of(store)['epoch']}", float(clock(store)))]
    assert_lawful(store)


@each_end
def test_without_on_end_nothing_is_kept(store: Store, ends: Callable[[Store], None]) -> None:
    new_run(store)
    ends(store)
    assert kept(store) == []


def test_what_is_no_end_keeps_nothing(store: Store) -> None:
    new_run(store, **ASKED)
    commit_next(store, claim(store))
    fail_round(store, claim(store), delay=0)
    later(store, 1)
    sweep(store)
    pause_here(store, claim(store))
    assert phase(store) == "interrupted" and kept(store) == []


def test_a_sweep_is_told_of_a_call_that_is_late_and_another_when_that_one_has_had_its_time(
    store: Store,
) -> None:
    new_run(store, **ASKED)
    completes(store)
    assert calls(store) == []
    advance(store, LATE)
    assert calls(store) == [("r", 0)]
    assert calls(store) == [], "that sweep is at it"
    advance(store, AGAIN + LATE)
    assert calls(store) == [("r", 0)]
    store.fleet.called("r", 0)
    advance(store, AGAIN + LATE)
    assert calls(store) == [] and kept(store) == []


def test_what_is_struck_off_is_one_end_and_not_the_next(store: Store) -> None:
    """The caller for the first end is slow: the run was retried, and has ended again, before it
    reports its call.
    """
    new_run(store, **ASKED)
    errs(store)
    assert retry(store) == ["queued"]
    take(store)
    completes(store)
    store.fleet.called("r", 0)
    store.fleet.called("r", 0)
    assert [name for name, _ in kept(store)] == ["r 1"]


def test_a_commit_that_is_repeated_keeps_no_second_call(store: Store) -> None:
    new_run(store, **ASKED)
    granted = claim(store)
    assert commit_end(store, granted) == ("ok", "completed")
    store.fleet.called("r", 0)
    assert commit_end(store, granted) == ("ok", "completed")
    assert kept(store) == []


def test_a_run_that_is_deleted_calls_nobody(store: Store) -> None:
    new_run(store, **ASKED)
    completes(store)
    assert store.runs.delete("r") == ["ok"]
    assert kept(store) == []


def test_a_key_that_takes_no_promise_keeps_no_run_from_its_end(store: Store) -> None:
    new_run(store, **ASKED)
    granted = claim(store)
    store.redis.set(store.keys.endings, "x")
    assert commit_end(store, granted) == ("ok", "completed")
    [told] = events(store, kind="call_not_kept")
    assert told["key"] == store.keys.endings and "WRONGTYPE" in told["error"]
    assert_lawful(store)
    advance(store, LATE)
    assert (store.keys.endings, "damaged") in sweep(store)


def test_a_clock_that_is_set_back_puts_no_call_off(store: Store) -> None:
    new_run(store, **ASKED)
    sweep(store)
    advance(store, 3_600_000)
    completes(store)
    later(store, -3_600_000)
    sweep(store)
    advance(store, LATE)
    assert calls(store) == [("r", 0)]


def test_what_a_run_needs_for_its_call_is_kept_as_long_as_the_run(store: Store) -> None:
    assert submit(store, **ASKED) == ("ok", "r")
    completes(store)
    assert store.redis.pexpiretime(store.keys.run("r")) == clock(
        store
    ) + RETENTION and "on_end" in hash_of(store)
