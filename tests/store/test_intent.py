"""record_intent: the holder of a round records its coming command, and the next holder finds the
record.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import Claim, Store
from tests.support.round_ends import ENDS
from tests.support.runs import (
    LEASE,
    advance,
    by_token_alone,
    claim,
    clock,
    commit,
    commit_end,
    commit_next,
    everything,
    hash_of,
    later,
    new_run,
    pause_here,
    pause_next,
    stop,
    sweep_after,
)

KEY = "r:0:command"
#: The fields of an intent.
WRITTEN = {"intent", "intent_token", "intent_at", "intent_by"}


def intend(store: Store, granted: Claim, key: str = KEY) -> str:
    """Record the intent of this key's command."""
    fields = granted.fields
    epoch, step = int(fields["epoch"]), int(fields["step"])
    return store.rounds.intend(
        fields["id"],
        epoch=epoch,
        step=step,
        token=granted.token,
        claim=granted.id or None,
        key=key,
    )


def begun(store: Store) -> Claim:
    """Make a run whose worker is about to carry out a command."""
    new_run(store)
    granted = claim(store)
    assert intend(store, granted) == "ok"
    return granted


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_an_attempt_the_next_one_finds_its_intent(
    store: Store, end: Callable[[Store, Claim], None]
) -> None:
    end(store, begun(store))
    assert claim(store).fields["intent"] == KEY


@pytest.mark.parametrize("done", [commit_next, commit_end, pause_next])
def test_a_round_that_is_done_leaves_no_intent(
    store: Store, done: Callable[[Store, Claim], tuple[str, str]]
) -> None:
    assert done(store, begun(store))[0] == "ok"
    assert not WRITTEN & set(hash_of(store))


def test_an_intent_says_when_and_by_which_worker_it_was_written(store: Store) -> None:
    begun(store)
    fields = hash_of(store)
    assert (fields["intent_at"], fields["intent_by"]) == (str(clock(store)), "w1")


def test_an_intent_repeated_changes_nothing(store: Store) -> None:
    granted = begun(store)
    before = everything(store)
    later(store, 1)
    assert intend(store, granted) == "ok"
    assert everything(store) == before


def test_a_worker_that_lost_its_round_may_begin_nothing(store: Store) -> None:
    """claim > lease lapses > swept > claimed by another, who finds no intent > the first one wakes
    up.
    """
    new_run(store)
    zombie = claim(store, owner="w1")
    sweep_after(store, LEASE)
    claim(store, owner="w2")
    before = everything(store)
    assert intend(store, zombie) == "fenced"
    assert everything(store) == before


def test_a_worker_that_lost_its_round_begins_nothing_by_its_token_alone(store: Store) -> None:
    new_run(store)
    zombie = by_token_alone(claim(store))
    sweep_after(store, LEASE)
    claim(store)
    assert intend(store, zombie) == "fenced"


def test_whoever_names_no_claim_begins_by_the_token_alone(store: Store) -> None:
    new_run(store)
    assert intend(store, by_token_alone(claim(store))) == "ok"


def test_a_lease_that_was_swept_away_lets_nobody_begin(store: Store) -> None:
    new_run(store)
    zombie = claim(store)
    sweep_after(store, LEASE)
    before = everything(store)
    assert intend(store, zombie) == intend(store, by_token_alone(zombie)) == "fenced"
    assert everything(store) == before


def test_a_lease_that_lapsed_but_was_not_swept_still_lets_its_worker_begin(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    advance(store, 50 * LEASE)
    assert intend(store, granted) == "ok"


@pytest.mark.parametrize(("epoch", "step"), [(1, 0), (0, 1)])
def test_another_epoch_or_step_may_begin_nothing(store: Store, epoch: int, step: int) -> None:
    new_run(store)
    granted = claim(store)
    before = everything(store)
    assert (
        store.rounds.intend(
            "r", epoch=epoch, step=step, token=granted.token, claim=granted.id, key=KEY
        )
        == "fenced"
    )
    assert everything(store) == before


def test_a_token_granted_twice_lets_only_the_claim_begin_that_holds_the_lease(store: Store) -> None:
    """A failover forgot the first claim, and granted its token once more."""
    new_run(store)
    granted = claim(store)
    assert (
        store.rounds.intend(
            "r", epoch=0, step=0, token=granted.token, claim="a claim forgotten", key=KEY
        )
        == "fenced"
    )
    assert "intent" not in hash_of(store)


def test_after_a_graceful_stop_the_round_in_flight_may_begin(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    assert stop(store)[0] == "asked"
    assert intend(store, granted) == "ok"


def test_after_stop_now_nobody_may_begin(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    stop(store, "now")
    before = everything(store)
    assert intend(store, granted) == "fenced"
    assert everything(store) == before, (
        "and the hold stays: the worker has not said yet that it is done"
    )


def test_an_intent_for_no_run_is_missing(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.redis.delete(store.keys.run("r"))
    before = everything(store)
    assert intend(store, granted) == "missing"
    assert everything(store) == before


# Taken back: the command itself said that it did nothing.


@pytest.mark.parametrize("end", ["failed", "give_back", "pause_here"])
def test_the_attempt_that_wrote_it_down_takes_it_back(store: Store, end: str) -> None:
    granted = begun(store)
    taken_back(store, granted, end)
    assert not WRITTEN & set(hash_of(store))


def test_no_later_attempt_takes_back_what_the_first_may_have_done(store: Store) -> None:
    """intent > the worker dies inside the command > tried again under the same key > that says:
    busy, nothing was done.
    """
    begun(store)
    sweep_after(store, LEASE)
    second = claim(store)
    assert intend(store, second) == "ok"
    taken_back(store, second, "failed")
    sweep_after(store, 1_000)
    assert claim(store).fields["intent"] == KEY


def test_taking_back_what_is_not_there_writes_no_field(store: Store) -> None:
    new_run(store)
    taken_back(store, claim(store), "failed")
    assert "intent" not in hash_of(store)


def test_what_was_taken_back_can_be_intended_again(store: Store) -> None:
    taken_back(store, begun(store), "failed")
    sweep_after(store, 1_000)
    granted = claim(store)
    assert "intent" not in granted.fields
    assert intend(store, granted) == "ok"
    sweep_after(store, LEASE)
    assert claim(store).fields["intent"] == KEY


def taken_back(store: Store, granted: Claim, kind: str) -> None:
    fields = {"intent": "", "spent": '{"requests":1}'}
    named = {"error": "busy", "delay": 1_000, "max_failures": 3} if kind == "failed" else {}
    if kind == "pause_here":
        assert pause_here(store, granted, **fields)[0] == "ok"
    else:
        assert commit(store, granted, kind, fields=fields, **named)[0] == "ok"
    assert hash_of(store)["spent"] == '{"requests":1}'
