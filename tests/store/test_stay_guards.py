"""commit_and_continue refuses every special case: the answer is `other`, and nothing is written.
commit_round knows them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import Claim, Store
from tests.support.cases import EachCase, cases_of
from tests.support.runs import (
    claim,
    commit_next,
    everything,
    fail_round,
    hash_of,
    later,
    new_run,
    pause_here,
    resume,
    stay,
    stop,
    sweep_after,
)

#: The counts and times of every leased run.
COUNTS = (
    "epoch", "step", "token", "attempt", "claimed_at", "lease_until", "lease_granted", "number", "failures", "losses", "grace", "resend",
)  # fmt: skip
NO_COUNTS = (None, "", "x", "-1", "1e3", "1.5", "123456789012345")


def leased(store: Store) -> Claim:
    """Return the claim of a run that would stay."""
    new_run(store)
    return claim(store)


def refused(store: Store, granted: Claim) -> None:
    """Check that the round is not committed here, and nothing is written."""
    before = everything(store)
    assert stay(store, granted) is None
    assert everything(store) == before


def put(store: Store, field: str, text: str | None) -> None:
    """Set a field of the run's hash; None: remove."""
    key = store.keys.run("r")
    if text is None:
        store.redis.hdel(key, field)
    else:
        store.redis.hset(key, field, text)


def other(granted: Claim, field: str) -> Claim:
    """Return the claim with another epoch or step."""
    return granted._replace(fields={**granted.fields, field: "7"})


def test_where_there_is_nothing_to_it_a_run_stays(store: Store) -> None:
    """The others would pass if none ever did."""
    assert stay(store, leased(store)) is not None


@pytest.mark.parametrize(
    "changed",
    [
        lambda granted: granted._replace(token="999"),
        lambda granted: granted._replace(id="another's"),
        lambda granted: other(granted, "step"),
        lambda granted: other(granted, "epoch"),
    ],
    ids=["token", "claim", "step", "epoch"],
)
def test_a_round_that_is_not_the_caller_s_does_not_stay(
    store: Store, changed: Callable[[Claim], Claim]
) -> None:
    refused(store, changed(leased(store)))


@pytest.mark.parametrize(
    "phase", ["queued", "waiting", "interrupted", "stopped", "completed", "errored", "x", None]
)
def test_a_run_that_is_not_leased_does_not_stay(store: Store, phase: str | None) -> None:
    granted = leased(store)
    put(store, "phase", phase)
    refused(store, granted)


def test_a_copy_of_a_run_does_not_stay(store: Store) -> None:
    """Under another key: it would move the other's due time."""
    granted = leased(store)
    store.redis.copy(store.keys.run("r"), store.keys.run("copy"))
    refused(store, granted._replace(fields={**granted.fields, "id": "copy"}))


@pytest.mark.parametrize("field", ["id", "flow", "current_node"])
def test_a_run_that_lost_a_control_field_does_not_stay(store: Store, field: str) -> None:
    granted = leased(store)
    put(store, field, None)
    refused(store, granted)


def test_a_garbled_count_does_not_stay(
    fresh_store: Callable[[], Store], each_case: EachCase
) -> None:
    def check(field: str, text: str | None) -> None:
        store = fresh_store()
        granted = leased(store)
        put(store, field, text)
        refused(store, granted)

    each_case(cases_of(COUNTS, NO_COUNTS), check)


def test_a_garbled_limit_does_not_stay(
    fresh_store: Callable[[], Store], each_case: EachCase
) -> None:
    def check(field: str, text: str) -> None:
        store = fresh_store()
        granted = leased(store)
        put(store, field, text)
        refused(store, granted)

    limits = ["round_timeout", "deadline", "round_until"]
    each_case(cases_of(limits, ["", "x", "-1", "1e3", "1234567890123456"]), check)


def test_a_stop_that_was_asked_for_is_left_to_the_commit(store: Store) -> None:
    granted = leased(store)
    stop(store)
    refused(store, granted)


def test_an_answer_is_consumed_before_a_run_stays(store: Store) -> None:
    pause_here(store, leased(store))
    resume(store, answer='"yes"')
    granted = claim(store)
    assert hash_of(store)["i_answer"] == '"yes"'
    refused(store, granted)


def test_a_token_that_is_held_does_not_stay(store: Store) -> None:
    granted = leased(store)
    put(store, "held_token", granted.token)
    refused(store, granted)


@pytest.mark.parametrize(
    ("field", "text"),
    [("failures", "1"), ("losses", "1"), ("last_error", "boom"), ("grace", "9999")],
)
def test_what_the_commit_would_set_back_does_not_stay(store: Store, field: str, text: str) -> None:
    granted = leased(store)
    put(store, field, text)
    refused(store, granted)


def test_a_round_that_failed_before_does_not_stay(store: Store) -> None:
    fail_round(store, leased(store))
    later(store, 1_000)
    sweep_after(store, 0)
    refused(store, claim(store))


def test_a_run_of_a_paused_flow_is_left_to_the_commit(store: Store) -> None:
    granted = leased(store)
    store.pauses.add("ring")
    refused(store, granted)


@pytest.mark.parametrize(
    "name", ["run", "memory", "events", "artifacts", "due", "queues", "paused"]
)
def test_a_key_of_a_wrong_type_is_left_to_the_commit(store: Store, name: str) -> None:
    granted = leased(store)
    found = getattr(store.keys, name)
    key = found("r") if callable(found) else found
    store.redis.delete(key)
    store.redis.set(key, "not what it was")
    refused(store, granted)


@pytest.mark.parametrize("text", [None, "", "0", "x"])
def test_into_a_line_without_a_number_no_run_stays(store: Store, text: str | None) -> None:
    """A message pushed without one would count as new, and wait behind all others."""
    granted = leased(store)
    field = f"{store.keys.queue('controller')}:cursor"
    store.redis.hdel(store.keys.queues, field)
    if text is not None:
        store.redis.hset(store.keys.queues, field, text)
    refused(store, granted)


@pytest.mark.parametrize("text", [None, "", "0", "x"])
def test_a_counter_behind_the_run_s_own_token_grants_none(store: Store, text: str | None) -> None:
    """It was lost: others hold tokens already that it would count next."""
    granted = leased(store)
    store.redis.hdel(store.keys.queues, "token")
    if text is not None:
        store.redis.hset(store.keys.queues, "token", text)
    refused(store, granted)


def test_a_commit_of_another_claim_is_not_granted_what_stayed(store: Store) -> None:
    """Its own reply was lost, and by now the next round is another claim's."""
    granted = leased(store)
    assert stay(store, granted, next_claim="w1.first") is not None
    refused(store, granted)


def test_a_garbled_limit_is_not_told_again(store: Store) -> None:
    granted = leased(store)
    assert stay(store, granted) is not None
    put(store, "round_until", "x y")
    refused(store, granted)


def test_a_round_that_was_committed_and_queued_does_not_stay(store: Store) -> None:
    granted = leased(store)
    commit_next(store, granted, "Controller")
    refused(store, granted)
