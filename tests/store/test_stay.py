"""commit_and_continue: the commit of one round leases the run's next one to the same worker, in the
same write, and no list sees it.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.worker.store import Claim, Store
from tests.support.runs import (
    LEASE,
    START,
    assert_lawful,
    at,
    claim,
    commit_end,
    commit_next,
    due,
    events,
    everything,
    fail_round,
    hash_of,
    later,
    message,
    messages,
    new_run,
    phase,
    stay,
    stop,
    sweep_after,
    sweep_and_bring,
    take,
    try_claim,
)


def stayed(store: Store, granted: Claim, **options: Any) -> Claim:
    """Stay with the run, which must succeed; return the claim of its next round."""
    found = stay(store, granted, **options)
    assert found is not None, "the run was not to stay"
    return found


def test_the_round_is_committed_and_the_next_one_leased_in_one_write(store: Store) -> None:
    new_run(store)
    first = claim(store)
    later(store, 10)
    second = stayed(store, first)
    fields = hash_of(store)
    assert (at(store), fields["phase"], fields["owner"], fields["attempt"]) == (
        (0, 1),
        "leased",
        "w1",
        "1",
    )
    assert (fields["claim_id"], fields["lease_until"]) == (
        "w1.next",
        str(START + 10 + LEASE),
    ) and due(store) == START + 10 + LEASE
    assert store.reads.memory("r") == ["turn"] and [
        event["step"] for event in events(store, kind="committed")
    ] == ["0"]
    assert messages(store) == [] and fields["message"] == "", (
        "nobody has read it, and nobody needs to write it"
    )
    assert int(second.token) > int(first.token)
    assert_lawful(store)
    assert commit_end(store, second) == ("ok", "completed")
    assert_lawful(store)


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"round_timeout": "9000"},
        {"deadline": str(START + 60_000)},
        {"v:sum": "1", "labels": "{}"},
    ],
)
def test_what_its_worker_knows_of_the_next_round_is_what_the_hash_says(
    store: Store, extra: dict[str, str]
) -> None:
    """Nothing is read again: the claim is put together from the committed values.

    Field for field it equals a reader's.
    """
    new_run(store, fields=extra)
    granted = claim(store)
    for step in range(1, 11):
        store.rounds.record_result("r", nonce="nonce-r", step=step - 1, name="paid", value="1")
        store.rounds.intend(
            "r", epoch=0, step=step - 1, token=granted.token, claim=granted.id, key="a key"
        )
        store.rounds.extend([("r", granted.token, '{"left": 3}')], claims=[granted.id])
        later(store, 7)
        granted = stayed(store, granted, next_claim=f"w1.{step}", **{"v:sum": str(step)})
        told = {name: text for name, text in granted.fields.items() if name != "beat_at"}
        assert told == {name: text for name, text in hash_of(store).items() if name != "beat_at"}
        assert (granted.turns, granted.newest) == (step, store.reads.memory("r")[-8:])


def test_a_message_that_is_written_already_is_kept(store: Store) -> None:
    """Where no template makes messages, Celery has built it."""
    new_run(store)
    granted = claim(store)
    stayed = store.rounds.commit_and_continue(
        "r", epoch=0, step=0, token=granted.token, claim=granted.id, next_claim="w1.next", queue=granted.fields["queue"],
        message=message("r", 0, 1), fields={},
    )  # fmt: skip
    assert stayed is not None and hash_of(store)["message"] == message("r", 0, 1)
    assert sweep_after(store, LEASE) == [("r", "freed")]


def test_a_run_stays_round_after_round(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    for step in range(1, 20):
        granted = stayed(store, granted, next_claim=f"w1.{step}")
    assert commit_next(store, granted, "Controller") == ("ok", "continued")
    assert messages(store) == [message("r", 0, 20)] and phase(store) == "queued"
    assert_lawful(store)


def test_nobody_else_gets_the_round_that_stays(store: Store) -> None:
    new_run(store)
    first = claim(store)
    second = stayed(store, first)
    assert not isinstance(try_claim(store, owner="w2"), Claim)
    assert commit_next(store, first, "Controller", step="7") == ("ok", "continued"), (
        "the repeated commit gets its first answer"
    )
    assert at(store) == (0, 1) and hash_of(store)["token"] == second.token


def test_a_commit_repeated_is_granted_the_same_again(store: Store) -> None:
    new_run(store)
    first = claim(store)
    once = stay(store, first)
    later(store, 5)
    before = everything(store)
    assert stay(store, first) == once
    assert everything(store) == before and store.reads.memory("r") == ["turn"]


def test_a_commit_repeated_after_another_took_the_run_up_is_granted_nothing(store: Store) -> None:
    new_run(store)
    first = claim(store)
    stayed(store, first)
    sweep_and_bring(store, LEASE)
    assert isinstance(try_claim(store, owner="w2"), Claim)
    before = everything(store)
    assert stay(store, first) is None and everything(store) == before
    assert commit_next(store, first, "Controller") == ("ok", "continued"), "what it did stands"


def test_a_worker_that_dies_leaves_its_run_to_others_before_those_in_line(store: Store) -> None:
    new_run(store)
    granted = stayed(store, claim(store))
    new_run(store, "behind")
    assert sweep_and_bring(store, LEASE) == [("r", "freed")]
    assert messages(store) == [message("r", 0, 1), message("behind", 0, 0)]
    assert commit_next(store, granted, "Controller") == ("fenced", "")
    assert_lawful(store)


def test_a_message_lost_after_that_is_sent_again(store: Store) -> None:
    new_run(store)
    stayed(store, claim(store))
    new_run(store, "behind")
    sweep_and_bring(store, LEASE)
    assert take(store) == message("r", 0, 1)
    words = [word for _ in range(3) for run_id, word in sweep_after(store, 2_000) if run_id == "r"]
    assert "resent" in words and message("r", 0, 1) in messages(store)


@pytest.mark.parametrize("mode", ["graceful", "now"])
def test_a_stop_is_seen_by_the_round_that_would_stay(store: Store, mode: str) -> None:
    new_run(store)
    granted = claim(store)
    stop(store, mode)
    before = everything(store)
    assert stay(store, granted) is None and everything(store) == before
    assert commit_next(store, granted, "Controller") == (
        ("ok", "stopped") if mode == "graceful" else ("fenced", "")
    )
    assert phase(store) == "stopped"


def test_a_run_of_a_paused_flow_does_not_stay(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.redis.hset(store.keys.paused, "ring", "{}")
    assert stay(store, granted) is None
    assert (
        commit_next(store, granted, "Controller") == ("ok", "continued")
        and phase(store) == "queued"
    )


def test_after_a_failure_the_run_is_queued_once_before_it_stays_again(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store))
    later(store, 1_000)
    sweep_after(store, 0)
    granted = claim(store)
    assert stay(store, granted) is None
    commit_next(store, granted, "Controller")
    assert stay(store, claim(store)) is not None


def test_into_a_line_that_nothing_was_taken_from_it_goes_by_the_list(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    assert stay(store, granted, "Executor") is None
    commit_next(store, granted, "Executor")
    assert messages(store, "executor") == [message("r", 0, 1)]
    assert stay(store, claim(store), "Controller") is not None


def test_the_round_s_own_limit_begins_anew(store: Store) -> None:
    new_run(store, fields={"round_timeout": "9000"})
    granted = claim(store)
    later(store, 1_000)
    stayed(store, granted)
    assert hash_of(store)["round_until"] == str(START + 1_000 + 9_000 + LEASE)


def test_more_values_and_turns_than_luas_stack_holds_are_all_kept(store: Store) -> None:
    new_run(store)
    values = {f"v:{number}": "1" for number in range(9_000)}
    stayed(
        store, claim(store), additions=tuple(f"turn {number}" for number in range(9_000)), **values
    )
    assert values.items() <= hash_of(store).items() and len(store.reads.memory("r")) == 9_000
