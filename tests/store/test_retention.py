"""An ended run is kept for its retention and then goes altogether; delete_run does so at once."""

from __future__ import annotations

import pytest

from perdure.worker.store import Claim, Store
from tests.support.runs import (
    LEASE,
    RETENTION,
    START,
    by_token_alone,
    claim,
    clock,
    commit,
    commit_end,
    commit_next,
    due,
    everything,
    fail_round,
    hash_of,
    indexes,
    later,
    messages,
    new_run,
    pause_here,
    phase,
    resume,
    retry,
    stop,
    submit,
    sweep_after,
)


def keys(store: Store, run_id: str = "r") -> list[str]:
    return [
        store.keys.run(run_id),
        store.keys.memory(run_id),
        store.keys.events(run_id),
        store.keys.idempotency("k"),
    ]


def expiries(store: Store) -> list[int]:
    return [int(str(store.redis.pexpiretime(key))) for key in keys(store)]


def play_on(store: Store) -> Claim:
    new_run(store, idempotency_key="k", content="c")
    commit_next(store, claim(store))
    return claim(store)


def test_a_live_run_never_expires(store: Store) -> None:
    play_on(store)
    assert expiries(store) == [-1] * 4


@pytest.mark.parametrize("kind", ["failed", "damaged", "lost"])
def test_an_errored_run_expires_with_all_its_keys_at_one_time(store: Store, kind: str) -> None:
    granted = play_on(store)
    if kind == "lost":
        sweep_after(store, LEASE, max_losses=0)
    elif kind == "failed":
        fail_round(store, granted, fatal=1)
    else:
        commit(store, granted, "damaged", error="bad")
    assert phase(store) == "errored"
    assert expiries(store) == [clock(store) + RETENTION] * 4


def test_a_stopped_run_stays(store: Store) -> None:
    play_on(store)
    stop(store, "now")
    assert expiries(store) == [-1] * 4


def test_an_interrupted_run_stays(store: Store) -> None:
    pause_here(store, play_on(store))
    assert expiries(store) == [-1] * 4


def test_what_is_written_after_the_end_leaves_the_expiry_alone(store: Store) -> None:
    granted = play_on(store)
    commit_end(store, granted)
    stop(store)
    commit_end(store, granted)
    assert expiries(store) == [START + RETENTION] * 4


def test_a_retry_keeps_the_run_and_its_next_end_counts_from_then(store: Store) -> None:
    fail_round(store, play_on(store), fatal=1)
    later(store, 500_000)
    retry(store)
    assert expiries(store) == [-1] * 4
    commit_end(store, claim(store))
    assert expiries(store) == [START + 500_000 + RETENTION] * 4


def test_an_idempotency_key_holds_as_long_as_its_run(store: Store) -> None:
    commit_end(store, play_on(store))
    assert submit(store, "other", idempotency_key="k", content="c") == ("existing", "r")
    store.runs.delete("r", "k")
    assert submit(store, "other", idempotency_key="k", content="c") == ("ok", "other")


def test_retention_is_the_runs_own(store: Store) -> None:
    new_run(store, fields={"retention": "77"})
    commit_end(store, claim(store))
    assert store.redis.pexpiretime(store.keys.run("r")) == START + 77


@pytest.mark.parametrize("end", ["completed", "errored", "stopped"])
def test_delete_removes_an_ended_run_altogether(store: Store, end: str) -> None:
    before = everything(store)
    granted = play_on(store)
    if end == "completed":
        commit_end(store, granted)
    elif end == "errored":
        fail_round(store, granted, fatal=1)
    else:
        stop(store, "now")
    assert store.runs.delete("r", "k") == ["ok"]
    left = everything(store)
    assert set(left) - set(before) <= {store.keys.queues}
    assert store.runs.delete("r", "k") == ["missing"]
    assert everything(store) == left


def test_delete_leaves_an_idempotency_key_that_another_run_has_by_now(store: Store) -> None:
    """The key was deleted by hand, and used again."""
    new_run(store, idempotency_key="k", content="c")
    stop(store)
    store.redis.delete(store.keys.idempotency("k"))
    new_run(store, "other", idempotency_key="k", content="c")
    assert store.runs.delete("r", "k") == ["ok"]
    assert store.redis.get(store.keys.idempotency("k")) == "c other"


def test_ended_runs_are_listed_by_the_time_of_their_end(store: Store) -> None:
    for run_id in ("first", "second"):
        new_run(store, run_id)
    for run_id in ("second", "first"):
        later(store, 10)
        commit_end(store, claim(store, run_id))
    assert store.redis.zrange(store.keys.index("completed"), 0, -1) == ["second", "first"]
    assert store.redis.zscore(store.keys.index("completed"), "second") == START + 10


@pytest.mark.parametrize("live", ["queued", "leased", "waiting", "interrupted"])
def test_delete_of_a_live_run_is_refused(store: Store, live: str) -> None:
    new_run(store)
    if live != "queued":
        granted = claim(store)
        if live == "waiting":
            fail_round(store, granted)
        if live == "interrupted":
            pause_here(store, granted)
    before = everything(store)
    assert store.runs.delete("r") == ["live", live]
    assert everything(store) == before


def test_nothing_comes_back_from_a_deleted_run(store: Store) -> None:
    granted = play_on(store)
    stop(store, "now")
    store.runs.delete("r", "k")
    before = everything(store)
    assert commit_next(store, granted)[0] == "missing"
    assert store.rounds.extend([("r", granted.token, '{"done":1}')]) == ["lost"]
    assert stop(store) == ["missing"]
    assert everything(store) == before and sweep_after(store, 60_000) == []


def test_a_zombie_of_a_deleted_run_cannot_commit_into_a_new_run_of_the_same_id(
    store: Store,
) -> None:
    """stop now > delete > submitted again under the same id > claimed > the first worker wakes."""
    new_run(store)
    zombie = by_token_alone(claim(store, owner="w1"))
    stop(store, "now")
    store.runs.delete("r")
    submit(store, nonce="another")
    claim(store, owner="w2")
    assert commit_end(store, zombie)[0] != "ok", "only the newest token commits"
    assert phase(store) == "leased" and hash_of(store)["step"] == "0"


def test_a_resumed_run_that_was_stopped_is_kept(store: Store) -> None:
    play_on(store)
    stop(store)
    resume(store)
    assert expiries(store) == [-1] * 4 and due(store) is not None
    assert indexes(store) == ["live"] and messages(store, "controller") == []


@pytest.mark.parametrize("asks", [False, True])
def test_a_damaged_run_that_is_deleted_is_neither_due_nor_listed(store: Store, asks: bool) -> None:
    new_run(store, deadline=1_000_000)
    if asks:
        pause_here(store, claim(store))
    store.redis.hdel(store.keys.run("r"), "epoch")
    assert due(store) is not None and indexes(store) == ["interrupted" if asks else "live"]
    assert store.runs.delete("r") == ["ok"]
    assert due(store) is None and indexes(store) == []
