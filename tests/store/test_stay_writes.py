"""The data after a round that stays: all writes of its commit, and a lease as a claim would grant
it.
"""

from __future__ import annotations

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    GRACE,
    LEASE,
    START,
    claim,
    commit,
    commit_next,
    due,
    events,
    everything,
    hash_of,
    later,
    new_run,
    stay,
    stop,
    sweep,
)

#: Data that belongs to another run, or differs between a queued run and a leased one.
APART = {
    "id",
    "nonce",
    "message",
    "phase",
    "number",
    "attempt",
    "token",
    "claim_id",
    "owner",
    "claimed_at",
    "lease_until",
    "last_token",
}


def test_a_round_that_stays_leaves_what_any_commit_leaves(store: Store) -> None:
    """Two rounds alike, one queued after it and another that stays: the same turns, texts, event
    and values.
    """
    left = []
    for run_id in ("queued", "stays"):
        new_run(store, run_id)
        granted = claim(store, run_id)
        fields = {
            "v:sum": "7",
            "queue": store.keys.queue("controller"),
            "current_node": "Controller",
        }
        told = {
            "fields": fields,
            "additions": ("one", "two"),
            "artifacts": {"report": "long"},
            "took": 12,
            "data": '{"tokens": 3}',
            "record": "0a1b2c3d sum",
        }
        of_run = {
            "epoch": 0,
            "step": 0,
            "token": granted.token,
            "claim": granted.id,
            "message": f"{run_id}/0/1",
        }
        if run_id == "queued":
            assert store.rounds.commit(run_id, kind="next", **of_run, **told) == ("ok", "continued")
        else:
            assert (
                store.rounds.commit_and_continue(
                    run_id, next_claim="w1.next", queue=fields["queue"], **of_run, **told
                )
                is not None
            )
        values = {
            name: text
            for name, text in hash_of(store, run_id).items()
            if name not in APART | {"queued_at", "last_fetched"}
        }
        left.append(
            (
                values,
                store.reads.memory(run_id),
                store.redis.hgetall(store.keys.artifacts(run_id)),
                events(store, run_id),
            )
        )
    assert left[0] == left[1]
    assert left[1][1:3] == (["one", "two"], {"report": "long"}) and left[1][3][-1]["took"] == "12"
    assert left[1][3][-1]["before"] == "0a1b2c3d" and left[1][3][-1]["v:sum"] == "7"


def test_the_attempts_of_the_next_round_begin_anew(store: Store) -> None:
    new_run(store)
    assert commit(store, claim(store), "give_back") == ("ok", "queued")
    granted = claim(store)
    assert granted.attempt == 2
    stay(store, granted)
    assert hash_of(store)["attempt"] == "1"


def test_its_number_is_that_of_what_was_last_taken_from_its_list(store: Store) -> None:
    """Not its old number: that was of another list, or is ahead of the queue's cursor, where no
    sweep would look for the run.
    """
    for run_id, role in (("e", "executor"), ("before", "controller"), ("r", "controller")):
        new_run(store, run_id, role=role)
    claim(store, "e")
    granted = claim(store)
    assert granted.fields["number"] == "2"
    stay(store, granted, "Executor")
    assert hash_of(store)["number"] == "1"


def test_the_lease_is_as_long_as_the_one_before(store: Store) -> None:
    new_run(store)
    granted = claim(store, lease=9_000)
    later(store, 100)
    stay(store, granted)
    assert due(store) == START + 100 + 9_000 == int(hash_of(store)["lease_until"])


def test_no_other_claim_has_its_token(store: Store) -> None:
    new_run(store)
    stayed = stay(store, claim(store))
    new_run(store, "other")
    assert stayed is not None and int(claim(store, "other").token) > int(stayed.token)


def test_a_token_is_newer_than_all_that_others_were_granted_meanwhile(store: Store) -> None:
    new_run(store)
    new_run(store, "other")
    granted, others = claim(store), claim(store, "other")
    stayed = stay(store, granted)
    assert stayed is not None and int(stayed.token) > int(others.token)


def test_the_lease_of_a_round_that_was_spared_can_be_spared_again(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    later(store, LEASE)
    assert sweep(store) == [("r", "spared")]
    assert "spared" in hash_of(store)
    stay(store, granted)
    assert "spared" not in hash_of(store)


def test_a_limit_that_only_the_worker_knew_ends_with_the_round_that_stays(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.rounds.extend([("r", granted.token, "")], limits=[5_000])
    granted.fields["round_until"] = hash_of(store)["round_until"]
    stayed = stay(store, granted)
    assert (
        stayed is not None
        and "round_until" not in stayed.fields
        and "round_until" not in hash_of(store)
    )


@pytest.mark.parametrize(("timeout", "limit"), [(None, 60_000), ("90000", 60_000), ("9000", 9_000)])
def test_the_next_round_ends_with_its_run_s_deadline_at_the_latest(
    store: Store, timeout: str | None, limit: int
) -> None:
    """And one lease later, so that a round which notices its end can still commit."""
    new_run(store, deadline=60_000, fields={"round_timeout": timeout} if timeout else {})
    stayed = stay(store, claim(store))
    assert stayed is not None
    assert (
        stayed.fields["round_until"] == hash_of(store)["round_until"] == str(START + limit + LEASE)
    )
    assert due(store) == START + LEASE


def test_a_commit_repeated_is_told_the_limit_again(store: Store) -> None:
    new_run(store, fields={"round_timeout": "9000"})
    granted = claim(store)
    once = stay(store, granted)
    later(store, 5)
    assert stay(store, granted) == once


def test_a_commit_repeated_is_granted_whatever_was_asked_for_meanwhile(store: Store) -> None:
    """It was made before: the next round is in flight, and sees the stop at its own end."""
    new_run(store)
    granted = claim(store)
    once = stay(store, granted)
    stop(store)
    store.pauses.add("ring")
    before = everything(store)
    assert stay(store, granted) == once and everything(store) == before


def test_a_run_that_stayed_is_queued_again_like_any_other(store: Store) -> None:
    new_run(store)
    stayed = stay(store, claim(store))
    assert stayed is not None
    commit_next(store, stayed, "Controller")
    assert (hash_of(store)["number"], due(store)) == ("2", START + GRACE)


def test_a_round_that_leaves_a_text_asks_for_the_type_of_what_keeps_it(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.redis.set(store.keys.artifacts("r"), "not what it was")
    before = everything(store)
    of_run = {
        "epoch": 0,
        "step": 0,
        "token": granted.token,
        "claim": granted.id,
        "message": "r/0/1",
        "fields": {"v:sum": "7"},
    }
    queue = store.keys.queue("controller")
    assert (
        store.rounds.commit_and_continue(
            "r", next_claim="w1.next", queue=queue, artifacts={"report": "long"}, **of_run
        )
        is None
    )
    assert everything(store) == before
