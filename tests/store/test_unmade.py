"""A run that stays has no message (decision 29): where one is to be pushed the sweep asks for it,
and does nothing until it comes.
"""

from __future__ import annotations

import pytest

from perdure.worker.store import Claim, Store
from tests.support.runs import (
    LEASE,
    advance,
    assert_lawful,
    at,
    claim,
    clock,
    commit,
    commit_next,
    due,
    events,
    everything,
    fail_round,
    hash_of,
    later,
    made,
    message,
    messages,
    new_run,
    phase,
    resume,
    stay,
    stop,
    sweep,
    sweep_after,
    sweep_and_bring,
    take,
    try_claim,
)

#: Until the sweep looks again at a run whose message a worker was to make, which may have died
#: (ms).
UNMADE = 1_000


@pytest.fixture
def granted(store: Store) -> Claim:
    """The claim of step 1, after a stay."""
    new_run(store)
    found = stay(store, claim(store))
    assert found is not None
    return found


def test_a_lapsed_lease_is_not_taken_away_until_the_message_is_there(
    store: Store, granted: Claim
) -> None:
    before = hash_of(store)
    assert sweep_after(store, LEASE) == [("r", "unmade")]
    assert hash_of(store) == before and messages(store) == [] and not events(store, kind="lost")
    assert due(store) == clock(store) + UNMADE
    assert_lawful(store)


def test_with_its_message_it_is_recovered_at_once(store: Store, granted: Claim) -> None:
    assert sweep_and_bring(store, LEASE) == [("r", "freed")]
    assert messages(store) == [message("r", 0, 1)] and hash_of(store)["losses"] == "1"
    again = try_claim(store, owner="w2")
    assert isinstance(again, Claim) and commit_next(store, granted) == ("fenced", "")
    assert_lawful(store)


def test_what_was_brought_is_sent_again_where_it_is_lost(store: Store, granted: Claim) -> None:
    sweep_and_bring(store, LEASE)
    assert take(store) == message("r", 0, 1) == hash_of(store)["message"]
    words = [word for _ in range(3) for _, word in sweep_after(store, 2_000)]
    assert "resent" in words and messages(store) == [message("r", 0, 1)]


def test_another_worker_asks_again_where_the_first_that_was_told_has_died(
    store: Store, granted: Claim
) -> None:
    sweep_after(store, LEASE)
    assert sweep_after(store, UNMADE - 1) == []
    assert sweep_and_bring(store, 1) == [("r", "freed")]


def test_a_message_of_another_round_is_not_taken(store: Store, granted: Claim) -> None:
    """Its worker lived, and went on while the message was made."""
    sweep_after(store, LEASE)
    asked = made(store)
    following = stay(store, granted, next_claim="w1.after")
    assert following is not None and at(store) == (0, 2)
    assert sweep_after(store, LEASE, made={"r": asked}) == [("r", "unmade")]
    assert messages(store) == [] and hash_of(store)["message"] == ""
    assert sweep(store, made={"r": made(store, steps=1)}) == [("r", "unmade")]
    assert sweep(store, made={"r": ("1", "2", message("r", 1, 2))}) == [("r", "unmade")]


def test_a_living_worker_keeps_its_lease_whatever_is_brought(store: Store, granted: Claim) -> None:
    sweep_after(store, LEASE)
    store.rounds.extend([("r", granted.token, "")], claims=[granted.id])
    assert sweep(store, made={"r": made(store)}) == [("r", "in_line")]
    assert due(store) == clock(store) + LEASE == int(hash_of(store)["lease_until"])
    assert commit_next(store, granted) == ("ok", "continued")


def test_what_is_brought_for_a_run_that_is_gone_or_at_rest_does_nothing(
    store: Store, granted: Claim
) -> None:
    asked = {"r": made(store), "nobody": ("0", "1", "a message")}
    commit(store, granted, "end", fields={"answer": "42", "output": "{}"})
    sweep(store)
    before = everything(store)
    assert sweep(store, made=asked) == [] and everything(store) == before


def test_none_hides_those_behind_it(store: Store, granted: Claim) -> None:
    later(store, 10)
    new_run(store, "behind")
    assert stay(store, claim(store, "behind"), next_claim="w1.behind") is not None
    advance(store, 2 * LEASE)
    assert [sweep(store, batch=1) for _ in range(2)] == [[("r", "unmade")], [("behind", "unmade")]]


def test_a_round_that_failed_waits_and_is_asked_for_when_its_time_has_come(
    store: Store, granted: Claim
) -> None:
    fail_round(store, granted, delay=500)
    assert (phase(store), hash_of(store)["message"]) == ("waiting", "")
    assert sweep_and_bring(store, 500) == [("r", "woken")]
    assert messages(store) == [message("r", 0, 1)] and phase(store) == "queued"
    assert_lawful(store)


def test_a_run_that_waits_for_its_message_is_asked_about_again(
    store: Store, granted: Claim
) -> None:
    fail_round(store, granted, delay=500)
    before = hash_of(store)
    assert sweep_after(store, 500) == [("r", "unmade")]
    assert hash_of(store) == before and due(store) == clock(store) + UNMADE


def test_a_deadline_is_not_put_off_by_a_message_that_is_not_there(store: Store) -> None:
    new_run(store, deadline=LEASE)
    found = stay(store, claim(store))
    assert found is not None
    fail_round(store, found, delay=LEASE - 500)
    assert sweep_after(store, LEASE - 500) == [("r", "unmade")]
    assert due(store) == clock(store) + 500
    assert sweep_after(store, 500) == [("r", "errored")]


def test_a_round_that_is_given_back_brings_its_message(store: Store, granted: Claim) -> None:
    assert commit(store, granted, "give_back") == ("ok", "queued")
    assert messages(store) == [message("r", 0, 1)] == [hash_of(store)["message"]]
    assert_lawful(store)


def test_a_message_that_is_there_is_not_taken_for_another(store: Store) -> None:
    new_run(store)
    found = claim(store)
    assert commit(store, found, "give_back", own="something else") == ("ok", "queued")
    assert hash_of(store)["message"] == message("r", 0, 0)


def test_a_stop_needs_no_message(store: Store, granted: Claim) -> None:
    stop(store)
    assert sweep_after(store, LEASE) == [("r", "stopped")]
    resume(store)
    assert messages(store) == [message("r", 1, 1)]


def test_a_round_past_its_limit_is_asked_about_as_well(store: Store) -> None:
    new_run(store, fields={"round_timeout": "1000"})
    found = stay(store, claim(store))
    assert found is not None
    assert sweep_after(store, 1_000 + LEASE) == [("r", "unmade")]
    assert sweep(store, made={"r": made(store)}) == [("r", "overran")]
