"""A damaged run harms no other: not by another's id or idempotency key in its hash, not by a token
or a time from nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.store import Claim, ClaimRefused, Store
from tests.support.cases import EachCase, cases_of
from tests.support.runs import (
    LEASE,
    advance,
    claim,
    commit_end,
    commit_next,
    due,
    events,
    everything,
    fail_round,
    hash_of,
    later,
    new_run,
    retry,
    stop,
    sweep,
    try_claim,
)


def damage(store: Store, field: str, text: str | None) -> None:
    key = store.keys.run("r")
    if text is None:
        store.redis.hdel(key, field)
    else:
        store.redis.hset(key, field, text)


def copied(store: Store) -> None:
    """Copy the other's whole hash under this run's key."""
    store.redis.copy(store.keys.run("other"), store.keys.run("r"), replace=True)


CALLS: dict[str, Callable[[Store, Claim], Any]] = {
    "claim": lambda store, _: [try_claim(store, epoch=0, step=0).word],  # type: ignore[union-attr]
    "commit": commit_next,
    "end": commit_end,
    "extend": lambda store, granted: store.rounds.extend([("r", granted.token, "")]),
    "stop": lambda store, _: stop(store, "now"),
    "resume": lambda store, _: store.runs.resume(
        "r", op="o", epoch=0, step=0, message="m", after="a"
    ),
    "retry": lambda store, _: store.runs.retry(
        "r", op="o", epoch=0, step=0, message="m", after="a"
    ),
    "quarantine": lambda store, _: store.rounds.quarantine(
        "r", epoch="0", step="0", message="r/0/0", error="e"
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", [lambda store: damage(store, "id", "other"), copied])
def test_a_run_with_the_id_of_another_is_damaged_and_leaves_the_other_alone(
    store: Store, how: Callable[[Store], None], call: str
) -> None:
    new_run(store, "other")
    claim(store, "other", claim="c")
    new_run(store)
    granted = claim(store)
    how(store)
    before = everything(store)
    later(store, 10)
    assert CALLS[call](store, granted)[0] in ("damaged", "lost")
    assert everything(store) == before


def test_a_sweep_moves_no_other_run_by_a_copy_of_it(store: Store) -> None:
    new_run(store, "other")
    claim(store, "other")
    new_run(store)
    copied(store)
    advance(store, LEASE - 1)
    before, promised = hash_of(store, "other"), due(store, "other")
    assert sweep(store) == [("r", "damaged")]
    assert (hash_of(store, "other"), due(store, "other")) == (before, promised)


def test_a_token_from_nowhere_takes_no_other_runs_room(store: Store) -> None:
    new_run(store)
    damage(store, "token", "9" * 15)
    before = everything(store)
    assert try_claim(store) == ClaimRefused("damaged", "token")
    assert everything(store) == before
    new_run(store, "other")
    assert int(claim(store, "other").token) < 100


@pytest.mark.parametrize("counter", [None, "x"])
def test_a_lost_counter_of_tokens_costs_no_run_its_claim(store: Store, counter: str | None) -> None:
    new_run(store)
    for _ in range(3):
        commit_next(store, claim(store))
    if counter is None:
        store.redis.hdel(store.keys.queues, "token")
    else:
        store.redis.hset(store.keys.queues, "token", counter)
    assert claim(store).token == "4"


@pytest.mark.parametrize("content", ["digest other", "", "x"])
def test_an_end_sets_no_expiry_on_an_idempotency_key_that_is_anothers(
    store: Store, content: str
) -> None:
    new_run(store, idempotency_key="k", content="c")
    store.redis.set(store.keys.idempotency("k"), content)
    commit_end(store, claim(store))
    assert store.redis.pexpiretime(store.keys.idempotency("k")) == -1
    assert store.redis.pexpiretime(store.keys.run("r")) > 0


def test_a_retry_makes_its_own_idempotency_key_last_and_no_others(store: Store) -> None:
    new_run(store, idempotency_key="k", content="c")
    fail_round(store, claim(store), fatal=1)
    assert store.redis.pexpiretime(store.keys.idempotency("k")) > 0
    retry(store)
    assert store.redis.pexpiretime(store.keys.idempotency("k")) == -1


@pytest.mark.parametrize("field", ["lease_until", "lease_granted"])
@pytest.mark.parametrize("call", ["claim", "commit", "stop"])
def test_a_lease_without_its_end_is_damaged_and_nothing_is_written(
    store: Store, call: str, field: str
) -> None:
    new_run(store)
    granted = claim(store)
    damage(store, field, None)
    before = everything(store)
    assert CALLS[call](store, granted)[0] == "damaged"
    assert everything(store) == before


#: The fields that run.lua checks as times, and the fields that it checks as other numbers.
TIMES = (
    "created_at", "updated_at", "started_at", "queued_at", "not_before", "waiting_until", "wait_until", "claimed_at", "beat_at",
    "lease_until", "round_until", "held_until", "deadline", "i_until", "stop_asked_at", "stop_seen_at", "stopped_at", "ended_at",
)  # fmt: skip
COUNTS = (
    "epoch", "step", "token", "attempt", "resend", "retention", "failures", "losses", "number", "first_number", "grace", "lease",
    "lease_granted", "round_timeout", "i_wait", "unknown", "idle",
)  # fmt: skip


def test_a_time_that_nobody_can_read_is_damaged(
    fresh_store: Callable[[], Store], each_case: EachCase
) -> None:
    def check(field: str, text: str) -> None:
        store = fresh_store()
        new_run(store)
        damage(store, field, text)
        assert try_claim(store) == ClaimRefused("damaged", field)

    each_case(cases_of(TIMES, ["253402300800000", "x", "-1", ""]), check)


def test_a_number_that_nobody_can_read_is_damaged(
    fresh_store: Callable[[], Store], each_case: EachCase
) -> None:
    def check(field: str, text: str) -> None:
        store = fresh_store()
        new_run(store)
        damage(store, field, text)
        assert try_claim(store, epoch=0, step=0) == ClaimRefused("damaged", field)

    each_case(cases_of(COUNTS, ["x", "-1", "", "9" * 16]), check)


def test_long_numbers_and_far_times_are_sound(store: Store) -> None:
    new_run(store)
    damage(store, "created_at", "9" * 14)
    damage(store, "idle", "9" * 15)
    damage(store, "retention", "9" * 15)
    assert store.runs.examine("r") == ["ok"]


def test_pauses_of_a_wrong_type_are_damaged(store: Store) -> None:
    new_run(store)
    store.redis.set(store.keys.paused, "x")
    assert store.runs.examine("r")[0] == "damaged"
    assert stop(store, "now")[0] == "damaged"


def test_a_queue_that_is_none_is_named(store: Store) -> None:
    new_run(store)
    assert store.runs.examine("r") == ["ok"]
    damage(store, "queue", "elsewhere")
    assert store.runs.examine("r") == ["damaged", "queue"]


def test_a_run_whose_history_was_removed_goes_on(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.redis.delete(store.keys.events("r"))
    assert commit_next(store, granted) == ("ok", "continued")


def test_a_stop_that_lost_its_details_still_stops(store: Store) -> None:
    new_run(store)
    claim(store)
    stop(store)
    for field in ("stop_mode", "stop_by", "stop_reason", "stop_asked_at"):
        damage(store, field, None)
    advance(store, LEASE)
    assert sweep(store) == [("r", "stopped")]
    [event] = events(store, kind="stopped")
    assert (event["mode"], event["by"], event["reason"], event["asked_at"]) == ("", "", "", "")


def test_a_lease_that_is_no_number_is_damaged(store: Store) -> None:
    new_run(store)
    damage(store, "lease", "long")
    assert try_claim(store) == ClaimRefused("damaged", "lease")
