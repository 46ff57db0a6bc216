"""Counts for monitoring: one count for each event, with the event, and never at a run's expense."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    LEASE,
    START,
    advance,
    claim,
    commit_end,
    commit_next,
    fail_round,
    new_run,
    park,
    pause_here,
    phase,
    resume,
    retry,
    signal,
    stop,
    submit,
    sweep,
    sweep_after,
    take,
    wake,
)  # fmt: skip
from tests.support.transition_counters import counted, scanned

Deed = Callable[[Store], object]


def claimed(store: Store) -> None:
    claim(store)


def gone_on(store: Store) -> None:
    """Claim the run twice: it has been running since the first time."""
    commit_next(store, claim(store), "Executor")
    claim(store)


def failed_once(store: Store) -> None:
    fail_round(store, claim(store), delay=1_000)


def completed(store: Store) -> None:
    commit_end(store, claim(store))


def errored(store: Store) -> None:
    fail_round(store, claim(store), fatal=1)


def interrupted(store: Store) -> None:
    pause_here(store, claim(store))


def stopped(store: Store) -> None:
    stop(store)


def stopped_at_work(store: Store) -> None:
    claim(store)
    stop(store, "now")


def nothing(store: Store) -> None:
    """Leave the run waiting in its queue."""


STATUSES = {
    nothing: "queued", claimed: "running", gone_on: "running", failed_once: "running", completed: "completed", errored: "errored",
    interrupted: "interrupted", stopped: "stopped", stopped_at_work: "stopped",
}  # fmt: skip


@pytest.mark.parametrize("deed", STATUSES)
def test_a_run_is_counted_by_its_status(store: Store, deed: Deed) -> None:
    new_run(store)
    new_run(store, "beside")
    deed(store)
    runs = {name: number for name, number in counted(store).items() if name.startswith("runs:")}
    assert runs == (
        {"runs:queued:ring": 2}
        if deed is nothing
        else {"runs:queued:ring": 1, f"runs:{STATUSES[deed]}:ring": 1}
    )
    assert counted(store) == scanned(store, "r", "beside")


def parked(store: Store, run_id: str = "r") -> None:
    park(store, claim(store, run_id), "1", {"paid": 1}, None)


def test_parked_runs_are_running_and_counted_beside_them(store: Store) -> None:
    new_run(store)
    parked(store)
    assert counted(store) == scanned(store, "r")
    assert counted(store)["runs:parked:ring"] == 1
    signal(store)
    signal(store)
    assert wake(store) == "queued"
    assert counted(store) == scanned(store, "r") == {
        "runs:running:ring": 1, "moves:submitted:ring": 1, "moves:parked:ring": 1, "moves:signalled:ring": 2,
    }  # fmt: skip


def test_a_parked_run_that_is_stopped_is_parked_no_more(store: Store) -> None:
    new_run(store)
    parked(store)
    stop(store)
    assert counted(store) == scanned(store, "r")


def test_the_moves_of_others_leave_the_count_of_parked_runs(store: Store) -> None:
    new_run(store)
    parked(store)
    new_run(store, "beside")
    commit_next(store, claim(store, "beside"))
    assert counted(store)["runs:parked:ring"] == 1


def test_a_wait_that_is_over_at_once_is_no_park(store: Store) -> None:
    new_run(store)
    signal(store)
    parked(store)
    assert counted(store) == scanned(store, "r")


def test_a_damaged_parked_run_that_is_deleted_is_counted_no_more(store: Store) -> None:
    new_run(store)
    parked(store)
    store.redis.hset(store.keys.run("r"), "step", "x")
    assert store.runs.delete("r") == ["ok"]
    assert counted(store) == {"moves:submitted:ring": 1, "moves:parked:ring": 1}


def test_a_run_that_goes_on_is_counted_as_queued_only_where_it_has_never_run(store: Store) -> None:
    for run_id in ("r", "new"):
        new_run(store, run_id)
    commit_next(store, claim(store), "Executor")
    for run_id in ("r", "new"):
        stop(store, run_id=run_id)
        assert counted(store) == scanned(store, "r", "new")
        assert resume(store, run_id=run_id) == ["queued"]
    assert {
        name: number for name, number in counted(store).items() if name.startswith("runs:")
    } == {
        "runs:running:ring": 1,
        "runs:queued:ring": 1,
    }


def test_each_flow_is_counted_apart(store: Store) -> None:
    new_run(store)
    new_run(store, "other", fields={"flow": "a:b"})
    assert counted(store) == {
        "runs:queued:ring": 1,
        "runs:queued:a:b": 1,
        "moves:submitted:ring": 1,
        "moves:submitted:a:b": 1,
    }


@pytest.mark.parametrize("mode", ["graceful", "now"])
def test_stops_are_counted_by_their_mode_when_the_run_is_stopped(store: Store, mode: str) -> None:
    new_run(store)
    granted = claim(store)
    stop(store, mode)
    assert counted(store).get(f"stops:{mode}:ring") == (1 if mode == "now" else None)
    commit_next(store, granted, "Executor")
    assert [name for name in counted(store) if name.startswith("stops:")] == [f"stops:{mode}:ring"]
    assert counted(store) == scanned(store, "r")


def test_a_retried_run_has_ended_all_the_same(store: Store) -> None:
    """Of ended runs there are totals, which never fall."""
    new_run(store)
    errored(store)
    assert retry(store) == ["queued"]
    assert counted(store) == {
        "moves:submitted:ring": 1,
        "runs:running:ring": 1,
        "runs:errored:ring": 1,
    }


def test_recoveries_and_messages_sent_again_are_counted(store: Store) -> None:
    new_run(store)
    claim(store)
    assert sweep_after(store, LEASE) == [("r", "freed")]
    claim(store)
    assert sweep_after(store, LEASE) == [("r", "delayed")]
    advance(store, 60_000)
    assert sweep_after(store, 0) == [("r", "woken")]
    assert take(store) is not None
    words = [sweep_after(store, 2_000)[0][1] for _ in range(2)]
    assert words == ["marked", "resent"]
    assert {name: number for name, number in counted(store).items() if name.startswith("moves:")} == {
        "moves:submitted:ring": 1, "moves:freed:ring": 1, "moves:delayed:ring": 1, "moves:resent:ring": 1,
    }  # fmt: skip


def test_a_question_that_its_deadline_answered_is_counted(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store), i_wait="2500")
    assert sweep_after(store, 2_500) == [("r", "answered")]
    assert counted(store)["moves:answered:ring"] == 1


@pytest.mark.parametrize("deed", [completed, errored, stopped])
def test_a_deleted_run_is_counted_no_more_and_has_ended_all_the_same(
    store: Store, deed: Deed
) -> None:
    new_run(store)
    deed(store)
    before = counted(store)
    assert store.runs.delete("r") == ["ok"]
    assert counted(store) == {
        name: number for name, number in before.items() if not name.startswith("runs:stopped")
    }


def test_a_damaged_run_that_is_deleted_is_counted_no_more(store: Store) -> None:
    new_run(store)
    claim(store)
    store.redis.hset(store.keys.run("r"), "step", "x")
    assert store.runs.delete("r") == ["ok"]
    assert counted(store) == {"moves:submitted:ring": 1}


def test_what_is_no_hash_is_deleted_without_a_count(store: Store) -> None:
    new_run(store)
    store.redis.delete(store.keys.run("r"))
    store.redis.set(store.keys.run("r"), "x")
    assert store.runs.delete("r") == ["ok"]
    assert counted(store) == {"moves:submitted:ring": 1, "runs:queued:ring": 1}


@pytest.mark.parametrize("text", ["x", "", "-3", "1e3", "9" * 16, "nan"])
def test_a_damaged_count_costs_no_run_anything(store: Store, text: str) -> None:
    new_run(store)
    for name in ("runs:queued:ring", "runs:running:ring", "runs:completed:ring"):
        store.redis.hset(store.keys.queues, name, text)
    assert commit_end(store, claim(store)) == ("ok", "completed")
    assert phase(store) == "completed"
    assert store.redis.hget(store.keys.queues, "runs:running:ring") == text


def test_no_count_falls_below_nothing(store: Store) -> None:
    """Runs that are older than the counts, or whose counts were removed."""
    new_run(store)
    store.redis.hdel(store.keys.queues, "runs:queued:ring")
    claim(store)
    assert counted(store) == {"moves:submitted:ring": 1, "runs:running:ring": 1}


def test_a_submission_sent_again_is_counted_once(store: Store) -> None:
    assert submit(store, nonce="n") == submit(store, nonce="n") == ("ok", "r")
    assert counted(store) == {"moves:submitted:ring": 1, "runs:queued:ring": 1}


def test_a_run_whose_beginning_was_damaged_leaves_no_count_behind(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.redis.hdel(store.keys.run("r"), "started_at")
    assert commit_end(store, granted) == ("ok", "completed")
    assert counted(store) == {"moves:submitted:ring": 1, "runs:completed:ring": 1}


def test_a_run_that_was_looked_at_meanwhile_begins_once(store: Store) -> None:
    new_run(store)
    new_run(store, "beside")
    commit_next(store, claim(store), "Executor")
    take(store, "executor")
    assert sweep_after(store, 2_000)[-1] == ("r", "marked")
    claim(store)
    assert {
        name: number for name, number in counted(store).items() if name.startswith("runs:")
    } == {
        "runs:queued:ring": 1,
        "runs:running:ring": 1,
    }


def test_a_run_that_keeps_its_status_is_not_counted_again(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.redis.hdel(store.keys.queues, "runs:running:ring")
    fail_round(store, granted, delay=1_000)
    assert counted(store) == {"moves:submitted:ring": 1}


def of_statuses(store: Store) -> dict[str, int]:
    return {
        name: number
        for name, number in counted(store).items()
        if name.startswith("runs:") and not name.startswith("runs:completed")
    }


def one_of_each(store: Store) -> dict[str, int]:
    """Make a run in each status; return expected counts."""
    for run_id in "abcde":
        new_run(store, run_id)
    for run_id in "fg":
        new_run(store, run_id)
        parked(store, run_id)
    claim(store, "b")
    pause_here(store, claim(store, "c"))
    stop(store, run_id="d")
    commit_end(store, claim(store, "e"))
    store.redis.hset(store.keys.queues, "swept_at", START)
    return dict.fromkeys(
        [f"runs:{status}:ring" for status in ("queued", "running", "interrupted", "stopped")], 1
    ) | {"runs:running:ring": 3, "runs:parked:ring": 2}


def test_runs_that_are_older_than_the_counts_are_counted_by_the_first_sweep(store: Store) -> None:
    true = one_of_each(store)
    store.redis.hdel(store.keys.queues, *counted(store))
    sweep(store)
    assert of_statuses(store) == true


def test_whoever_takes_the_mark_away_has_the_runs_counted_anew(store: Store) -> None:
    true = one_of_each(store)
    sweep(store)
    wrong = {
        "runs:queued:ring": 7,
        "runs:stopped:ring": "x",
        "runs:running:gone": 3,
        "runs:completed:ring": 9,
    }
    store.redis.hset(store.keys.queues, mapping=wrong)
    sweep(store)
    assert store.redis.hget(store.keys.queues, "runs:queued:ring") == "7", (
        "they are not counted at each sweep"
    )
    store.redis.hdel(store.keys.queues, "counted")
    sweep(store)
    assert of_statuses(store) == true
    assert counted(store)["runs:completed:ring"] == 9, "a total is no matter of who is there"


def test_what_is_listed_and_is_no_run_is_not_counted(store: Store) -> None:
    true = one_of_each(store)
    live = store.keys.index("live")
    store.redis.zadd(
        live, {"gone": START, "text": START, "odd": START, "flowless": START, "ended": START}
    )
    store.redis.set(store.keys.run("text"), "x")
    store.redis.hset(store.keys.run("odd"), mapping={"flow": "ring", "phase": "x"})
    store.redis.hset(store.keys.run("flowless"), mapping={"phase": "queued"})
    store.redis.hset(store.keys.run("ended"), mapping={"flow": "ring", "phase": "errored"})
    store.redis.hdel(store.keys.queues, *counted(store))
    sweep(store)
    assert counted(store) == true


@pytest.mark.parametrize(("runs", "is_counted"), [(50_000, True), (50_001, False)])
def test_a_sweep_counts_no_more_runs_than_it_has_time_for(
    store: Store, runs: int, is_counted: bool
) -> None:
    new_run(store)
    stop(store)
    store.redis.hset(store.keys.queues, mapping={"swept_at": START, "runs:stopped:ring": 7})
    store.redis.zadd(store.keys.index("live"), {f"gone{n}": START for n in range(runs - 1)})
    sweep(store)
    assert (store.redis.hget(store.keys.queues, "runs:stopped:ring") == "1") == is_counted
