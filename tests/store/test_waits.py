"""Waits and the mailbox, by the scripts alone: parked runs, signals in order, what is taken, what is kept for how long."""

from __future__ import annotations

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    LEASE,
    Claim,
    assert_lawful,
    claim,
    clock,
    commit_end,
    commit_next,
    due,
    due_in,
    events,
    hash_of,
    messages,
    new_run,
    park,
    phase,
    resume,
    signal,
    stop,
    sweep_after,
    sweep_and_bring,
    try_claim,
    wake,
)

PAID = {"paid": 1}


def parked(store: Store, ms: int | None = None, **signals: int) -> None:
    """A run that waits for one signal ``paid``, or for what is given."""
    new_run(store)
    granted = claim(store)
    assert park(store, granted, "1", signals or PAID, ms) == ("ok", "parked")


def took(store: Store, granted: Claim, lines: str) -> tuple[str, str]:
    """The round is done, and used these signals."""
    return commit_end(store, granted, options={"take": lines})


def test_a_parked_run_has_neither_lease_nor_message_nor_due_time(store: Store) -> None:
    parked(store)
    fields = hash_of(store)
    assert (fields["message"], due(store), messages(store)) == ("", None, [])
    assert not {"lease_until", "claim_id", "owner"} & set(fields)
    assert_lawful(store)


def test_a_parked_run_is_not_claimed(store: Store) -> None:
    parked(store)
    refused = try_claim(store)
    assert (refused.word, refused.detail) == ("early", "parked")


def test_a_signal_makes_a_run_due_that_waits_for_it_and_its_sender_brings_the_message(
    store: Store,
) -> None:
    parked(store)
    assert signal(store, "other") == ["ok", "1", "parked"]
    assert due(store) is None
    assert signal(store) == ["unmade", "1", "parked", "0", "0"]
    assert due_in(store) <= 0
    assert wake(store) == "queued"
    assert messages(store) == ["r/0/0"]
    assert [entry["by"] for entry in events(store, kind="woken")] == ["paid"]


def test_where_the_sender_dies_the_sweep_asks_for_the_message(store: Store) -> None:
    parked(store)
    signal(store)
    assert sweep_and_bring(store, 0) == [("r", "woken")]
    assert messages(store) == ["r/0/0"]


def test_a_message_that_comes_late_wakes_nobody(store: Store) -> None:
    parked(store)
    assert wake(store) == "moved", "nothing has come"
    signal(store)
    stop(store)
    assert wake(store) == "moved"
    assert phase(store) == "stopped"


def test_a_signal_that_comes_between_the_look_and_the_park_is_seen_by_the_park(
    store: Store,
) -> None:
    new_run(store)
    granted = claim(store)
    signal(store)
    assert park(store, granted, "1", PAID, None) == ("ok", "queued")
    assert messages(store) == ["r/0/0"]


def test_a_time_that_has_passed_is_recorded_for_every_attempt_of_the_step(store: Store) -> None:
    parked(store, ms=5_000)
    assert due_in(store) == 5_000
    assert sweep_and_bring(store, 5_000) == [("r", "woken")]
    signal(store)  # too late
    granted = claim(store)
    assert granted.fields["o:~1"] == "null"
    sweep_after(store, LEASE)
    assert claim(store).fields["o:~1"] == "null", "the next attempt finds the same"


def test_a_signal_that_came_before_the_time_has_passed_wins(store: Store) -> None:
    parked(store, ms=5_000)
    signal(store)
    assert sweep_and_bring(store, 5_000) == [("r", "woken")]
    assert "o:~1" not in hash_of(store)


def test_a_wait_keeps_its_time_through_stop_and_resume(store: Store) -> None:
    parked(store, ms=5_000)
    ends = hash_of(store)["wait_until"]
    stop(store)
    resume(store)
    sweep_after(store, 1_000)
    assert park(store, claim(store, epoch=1), "1", PAID, 5_000) == ("ok", "parked")
    assert hash_of(store)["wait_until"] == ends
    assert due(store) == int(ends)


def test_the_commit_takes_what_its_round_used_and_leaves_the_rest(store: Store) -> None:
    new_run(store)
    for payload in ("1", "2", "3"):
        signal(store, payload=payload)
    assert commit_next(store, claim(store), "Controller", options={"take": "paid 2"})[0] == "ok"
    assert store.signal_counts("r", ["paid"]) == {"paid": (2, 3)}
    left = store.signals("r", [("paid", 1), ("paid", 2), ("paid", 3)])
    assert [each and each[3] for each in left] == [None, None, "3"]


def test_a_repeated_commit_takes_nothing_more(store: Store) -> None:
    new_run(store)
    signal(store)
    granted = claim(store)
    first = commit_next(store, granted, "Controller", options={"take": "paid 1"})
    signal(store)
    assert commit_next(store, granted, "Controller", options={"take": "paid 1"}) == first
    assert store.signal_counts("r", ["paid"]) == {"paid": (1, 2)}


def test_what_a_step_waited_for_ends_with_it(store: Store) -> None:
    parked(store, ms=1_000)
    sweep_and_bring(store, 1_000)
    commit_next(store, claim(store), "Controller", options={"take": ""})
    assert not {"wait", "wait_for", "wait_until", "wait_over", "once", "o:~1"} & set(hash_of(store))


def test_signals_of_all_names_have_one_order(store: Store) -> None:
    new_run(store)
    for name in ("b", "a", "b"):
        signal(store, name)
    found = store.signals("r", [("a", 1), ("b", 1), ("b", 2)])
    assert [each and each[0] for each in found] == [2, 1, 3]


def test_a_key_is_known_for_the_newest_thousand_signals_of_a_name(store: Store) -> None:
    new_run(store)
    for number in range(1_002):
        keyed = {"key": f"k{number}", "content": "c"}
        assert signal(store, most=2_000, **keyed)[1] == str(number + 1)
    assert signal(store, most=2_000, key="k2", content="c") == ["ok", "3", "queued"]
    assert signal(store, most=2_000, key="k2", content="d") == ["conflict", "3"]
    assert signal(store, most=2_000, key="k0", content="c")[1] == "1003", "forgotten by now"


def test_a_full_mailbox_refuses_and_stores_nothing(store: Store) -> None:
    new_run(store)
    assert [signal(store, most=2)[0] for _ in range(3)] == ["ok", "ok", "full"]
    assert [signal(store, name, names=2)[0] for name in ("a", "b")] == ["ok", "full"]
    assert store.signal_counts("r", ["paid", "b"]) == {"paid": (0, 2), "b": (0, 0)}


def test_an_ended_run_takes_no_signal_and_its_mailbox_expires_with_it(store: Store) -> None:
    parked(store)
    signal(store)
    wake(store)
    took(store, claim(store), "paid 1")
    assert signal(store) == ["finished", "completed"]
    mailbox, run = store.keys.mailbox("r"), store.keys.run("r")
    assert store.redis.pexpiretime(mailbox) == store.redis.pexpiretime(run) > 0


def test_a_deleted_run_leaves_no_mailbox(store: Store) -> None:
    parked(store)
    signal(store)
    stop(store)
    assert store.delete("r") == ["ok"]
    assert list(store.redis.scan_iter(f"{store.keys.run('r')}*")) == []


def test_the_deadline_of_the_run_ends_a_wait(store: Store) -> None:
    new_run(store, deadline=9_000)
    park(store, claim(store), "1", PAID, None)
    assert due_in(store) == 9_000
    assert sweep_after(store, 9_000) == [("r", "errored")]


@pytest.mark.parametrize("act", ["signal", "wake", "park", "take", "sweep"])
def test_a_mailbox_of_a_wrong_type_is_damage_and_nothing_is_written(store: Store, act: str) -> None:
    if act in ("park", "take"):
        new_run(store)
        granted = claim(store)
    else:
        parked(store, ms=1_000)
    store.redis.set(store.keys.mailbox("r"), "not a hash")
    before = hash_of(store)
    if act == "signal":
        assert signal(store) == ["damaged", store.keys.mailbox("r")]
    elif act == "wake":
        assert wake(store) == "damaged"
    elif act == "sweep":
        assert sweep_after(store, 1_000) == [("r", "damaged")]
    elif act == "park":
        assert park(store, granted, "1", PAID, None)[0] == "damaged"
    else:
        assert took(store, granted, "paid 1")[0] == "damaged"
    assert hash_of(store) == before


def test_each_park_gives_the_step_all_its_tries_again(store: Store) -> None:
    new_run(store)
    sweep_after(store, 0)
    claim(store)
    sweep_after(store, LEASE)
    assert hash_of(store)["losses"] == "1"
    park(store, claim(store), "1", PAID, None)
    assert (hash_of(store)["losses"], hash_of(store)["failures"]) == ("0", "0")
    assert clock(store) > 0
