"""Waits and the mailbox, by the scripts alone: parked runs, signals in order, taken signals, and
how long the others are stored.
"""

from __future__ import annotations

import pytest

from perdure.worker.store import Store
from tests.support.redis_servers import CrashableServer
from tests.support.runs import (
    GRACE,
    LEASE,
    START,
    Claim,
    advance,
    assert_lawful,
    claim,
    clock,
    commit_end,
    commit_next,
    due,
    due_in,
    events,
    fail_round,
    hash_of,
    made,
    messages,
    new_run,
    next_message,
    park,
    pause_here,
    phase,
    resume,
    retry,
    signal,
    stop,
    submit,
    sweep_after,
    sweep_and_bring,
    try_claim,
    wake,
)

PAID = {"paid": 1}


def parked(store: Store, ms: int | None = None, **signals: int) -> None:
    """Park a run that waits for one signal ``paid``, or for the given ones."""
    new_run(store)
    granted = claim(store)
    assert park(store, granted, "1", signals or PAID, ms) == ("ok", "parked")


def took(store: Store, granted: Claim, lines: str) -> tuple[str, str]:
    """Commit a round that used these signals."""
    return commit_end(store, granted, options={"take": lines})


def test_a_parked_run_has_neither_lease_nor_message_nor_due_time(store: Store) -> None:
    parked(store)
    fields = hash_of(store)
    assert (fields["message"], due(store), messages(store)) == ("", None, [])
    assert not {"lease_until", "claim_id", "owner"} & set(fields)
    assert_lawful(store)


def test_the_events_say_what_a_run_waited_for_and_what_came(store: Store) -> None:
    parked(store, ms=5_000)
    signal(store, by="ann")
    wake(store)
    told = [(entry["type"], entry.get("for"), entry.get("until")) for entry in events(store)]
    assert told[1] == ("parked", "paid 1", str(clock(store) + 5_000))
    (signalled,) = events(store, kind="signalled")
    assert {name: signalled[name] for name in ("name", "number", "by")} == {
        "name": "paid",
        "number": "1",
        "by": "ann",
    }
    found = store.signals.stored("r", [("paid", 1)])[0]
    assert found == (1, clock(store), "ann", "1")


def test_a_run_that_was_woken_has_a_fresh_grace(store: Store) -> None:
    parked(store)
    signal(store)
    wake(store)
    assert due_in(store) == GRACE


def test_a_question_that_was_answered_leaves_a_parked_run_no_message(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store), i_wait=str(LEASE), i_default="1")
    resume(store, answer='"yes"')
    park(store, claim(store, epoch=1), "1", PAID, None)
    assert hash_of(store)["message"] == ""


def test_a_parked_run_is_not_claimed(store: Store) -> None:
    parked(store)
    refused = try_claim(store)
    assert (refused.word, refused.detail) == ("early", "parked")


def test_a_signal_reaches_a_run_whose_task_is_missing(store: Store) -> None:
    parked(store)
    store.redis.hdel(store.keys.run("r"), "task")
    assert signal(store) == ["unmade", "1", "parked", "0", "0", "", next_message(store)[1]]


def test_a_signal_makes_a_run_due_that_waits_for_it_and_its_sender_brings_the_message(
    store: Store,
) -> None:
    parked(store)
    assert signal(store, "other") == ["ok", "1", "parked"]
    assert due(store) is None
    assert signal(store) == ["unmade", "1", "parked", "0", "0", *next_message(store)]
    assert due_in(store) <= 0
    assert wake(store) == "queued"
    assert messages(store) == ["r/0/0"]
    assert [entry["by"] for entry in events(store, kind="woken")] == ["paid"]


def test_a_run_that_waits_no_more_is_not_woken_by_a_signal(store: Store) -> None:
    parked(store)
    signal(store)
    wake(store)
    claim(store)
    ends = due(store)
    assert signal(store)[0] == "ok", "its round is under way"
    assert due(store) == ends


def test_a_message_of_another_round_wakes_nobody(store: Store) -> None:
    parked(store)
    signal(store)
    for epoch, step in ((1, 0), (0, 1)):
        assert store.signals.wake("r", epoch=epoch, step=step, message="m")[0] == "moved"
    assert phase(store) == "parked"


def test_a_late_message_is_told_where_the_run_is(store: Store) -> None:
    new_run(store)
    reply = store._run("wake_run", "r", {"epoch": 0, "step": 0, "message": "m"})
    assert reply == ["moved", "queued"]


def test_a_run_of_an_unknown_queue_is_not_woken(store: Store) -> None:
    parked(store)
    signal(store)
    store.redis.hset(store.keys.run("r"), "queue", "elsewhere")
    assert wake(store) == "unknown_queue"
    assert phase(store) == "parked"


def test_with_an_outbox_the_message_is_the_callers_to_publish(
    any_server: CrashableServer, prefix: str
) -> None:
    store = Store(any_server.url, prefix, now=START, outbox=True)
    parked(store)
    signal(store)
    epoch, step, text = made(store)
    word, told = store.signals.wake("r", epoch=int(epoch), step=int(step), message=text)
    assert (word, told) == ("queued", [(store.keys.queue("controller"), text)])
    store.close()


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


def test_a_time_out_is_recorded_once_and_beside_other_results(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.rounds.record_result("r", nonce=granted.fields["nonce"], step=0, name="charge", value="7")
    park(store, granted, "1", PAID, 1_000)
    assert sweep_after(store, 1_000) == [("r", "unmade")]
    assert sweep_and_bring(store, 1_000) == [("r", "woken")]
    assert hash_of(store)["once"].split("\n") == ["charge", "~1"]


def test_a_time_that_passed_while_the_run_was_stopped_is_recorded_by_the_park(
    store: Store,
) -> None:
    parked(store, ms=1_000)
    stop(store)
    sweep_after(store, 2_000)
    resume(store)
    assert park(store, claim(store, epoch=1), "1", PAID, 1_000) == ("ok", "queued")
    assert hash_of(store)["o:~1"] == "null"


def test_another_signal_may_find_that_the_time_has_passed(store: Store) -> None:
    parked(store, ms=1_000)
    advance(store, 1_000)
    assert signal(store, "other")[0] == "unmade"
    assert wake(store) == "queued"
    assert hash_of(store)["o:~1"] == "null"
    assert [entry["by"] for entry in events(store, kind="woken")] == ["time"]


def test_a_wait_without_a_time_behind_one_with_a_time_has_none(store: Store) -> None:
    parked(store, ms=5_000)
    signal(store)
    wake(store)
    assert park(store, claim(store), "2", {"paid": 2}, None) == ("ok", "parked")
    assert "wait_until" not in hash_of(store) and due(store) is None


def test_a_signal_that_was_taken_ends_no_further_wait(store: Store) -> None:
    new_run(store)
    signal(store)
    commit_next(store, claim(store), "Controller", options={"take": "paid 1"})
    assert park(store, claim(store, step=1), "1", PAID, None) == ("ok", "parked")


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
    assert store.signals.counts_of("r", ["paid"]) == {"paid": (2, 3)}
    left = store.signals.stored("r", [("paid", 1), ("paid", 2), ("paid", 3)])
    assert [each and each[3] for each in left] == [None, None, "3"]


def test_a_repeated_commit_takes_nothing_more(store: Store) -> None:
    new_run(store)
    signal(store)
    granted = claim(store)
    first = commit_next(store, granted, "Controller", options={"take": "paid 1"})
    signal(store)
    assert commit_next(store, granted, "Controller", options={"take": "paid 1"}) == first
    assert store.signals.counts_of("r", ["paid"]) == {"paid": (1, 2)}


def test_what_a_step_waited_for_ends_with_it(store: Store) -> None:
    parked(store, ms=1_000)
    sweep_and_bring(store, 1_000)
    commit_next(store, claim(store), "Controller", options={"take": ""})
    assert not {"wait", "wait_for", "wait_until", "wait_over", "once", "o:~1"} & set(hash_of(store))


def test_signals_of_all_names_have_one_order(store: Store) -> None:
    new_run(store)
    for name in ("b", "a", "b"):
        signal(store, name)
    found = store.signals.stored("r", [("a", 1), ("b", 1), ("b", 2)])
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
    assert [signal(store, name, names=2)[0] for name in ("a", "b", "a")] == ["ok", "full", "ok"]
    assert store.signals.counts_of("r", ["paid", "b"]) == {"paid": (0, 2), "b": (0, 0)}


def entry_size(store: Store, name: str = "paid") -> int:
    """Return the bytes of a signal in the mailbox whose payload is 1."""
    return int(store.redis.hstrlen(store.keys.mailbox("r"), f"{name}:1"))


def test_a_mailbox_has_a_size(store: Store) -> None:
    new_run(store)
    signal(store)
    size = 2 * entry_size(store)
    assert [signal(store, name, size=size)[0] for name in ("a", "b")] == ["ok", "full"]
    commit_next(store, claim(store), "Controller", options={"take": "paid 1"})
    assert [signal(store, name, size=size)[0] for name in ("b", "paid")] == ["ok", "full"]
    commit_next(store, claim(store, step=1), "Controller", options={"take": "a 1\nb 1"})
    assert store.redis.hmget(store.keys.mailbox("r"), "bytes", "names") == ["0", "0"]


def test_the_refusal_says_of_what_a_mailbox_is_full(store: Store) -> None:
    new_run(store)
    signal(store)
    assert signal(store, most=1) == ["full", "signals"]
    assert signal(store, "other", names=1) == ["full", "names"]
    assert signal(store, size=1) == ["full", "bytes"]


def test_a_name_whose_signals_are_taken_makes_room_for_another(store: Store) -> None:
    new_run(store)
    for name in ("paid", "paid", "a"):
        signal(store, name)
    assert signal(store, "b", names=2)[0] == "full"
    commit_next(store, claim(store), "Controller", options={"take": "paid 1"})
    assert signal(store, "b", names=2)[0] == "full", "one of its name is still unread"
    commit_next(store, claim(store, step=1), "Controller", options={"take": "paid 2"})
    assert signal(store, "b", names=2)[0] == "ok"
    assert signal(store, "paid", names=2)[0] == "full"


def test_the_signal_that_a_run_waits_for_is_taken_in_beside_others(store: Store) -> None:
    new_run(store)
    signal(store, "a")
    park(store, claim(store), "1", {"late": 2, "paid": 1}, None)
    for other in ("pai", "p.id", "ate"):
        assert signal(store, other, names=1) == ["full", "names"]
    assert signal(store, "late", names=1)[0] == "ok", "it waits for two of them"
    assert signal(store, "paid", names=1)[0] == "unmade"
    wake(store)
    commit_next(store, claim(store), "Controller", options={"take": "late 1\npaid 1"})
    assert signal(store, "b", names=1) == ["full", "names"]


def test_what_a_round_took_makes_room(store: Store) -> None:
    new_run(store)
    assert [signal(store, most=2)[0] for _ in range(3)] == ["ok", "ok", "full"]
    commit_next(store, claim(store), "Controller", options={"take": "paid 2"})
    assert [signal(store, most=2)[0] for _ in range(3)] == ["ok", "ok", "full"]


def test_an_ended_run_takes_no_signal_and_its_mailbox_expires_with_it(store: Store) -> None:
    parked(store)
    signal(store)
    wake(store)
    took(store, claim(store), "paid 1")
    assert signal(store) == ["finished", "completed"]
    mailbox, run = store.keys.mailbox("r"), store.keys.run("r")
    assert store.redis.pexpiretime(mailbox) == store.redis.pexpiretime(run) > 0


def test_the_mailbox_of_an_errored_run_is_removed_by_the_sweep_once_the_run_is_gone(
    store: Store,
) -> None:
    new_run(store)
    fail_round(store, claim(store), fatal=1)
    assert signal(store) == ["ok", "1", "errored"]
    store.redis.delete(*(f"{store.keys.run('r')}{part}" for part in ("", ":memory", ":events")))
    assert submit(store, nonce="another") == ("damaged", store.keys.mailbox("r"))
    sweep_after(store, 1)
    assert submit(store, nonce="another") == ("ok", "r")


def test_a_retried_run_finds_the_signal_that_came_while_it_was_errored(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store), fatal=1)
    signal(store)
    retry(store)
    assert park(store, claim(store, epoch=1), "1", PAID, None) == ("ok", "queued")


def test_a_deleted_run_leaves_no_mailbox(store: Store) -> None:
    parked(store)
    signal(store)
    stop(store)
    assert store.runs.delete("r") == ["ok"]
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
    fail_round(store, claim(store), within=60_000)
    sweep_after(store, 1_000)
    assert hash_of(store)["failures"] == "1"
    park(store, claim(store), "1", PAID, None)
    fields = hash_of(store)
    assert (fields["losses"], fields["failures"], "failing" in fields) == ("0", "0", False)


@pytest.mark.parametrize("field", ["wait", "wait_for", "wait_over"])
def test_a_parked_run_without_its_wait_is_damaged(store: Store, field: str) -> None:
    parked(store, ms=1_000)
    store.redis.hdel(store.keys.run("r"), field)
    assert signal(store) == ["damaged", "wait"]
    assert sweep_after(store, 1_000) == [("r", "damaged")]


@pytest.mark.parametrize("kind", ["park", "next"])
def test_a_late_commit_of_a_run_that_is_parked_by_now_is_fenced(store: Store, kind: str) -> None:
    new_run(store)
    late = claim(store)
    sweep_after(store, LEASE)
    assert park(store, claim(store), "1", PAID, None) == ("ok", "parked")
    again = park(store, late, "1", PAID, None) if kind == "park" else commit_next(store, late)
    assert again[0] == "fenced"


def test_a_park_sent_again_gets_its_first_answer(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    first = park(store, granted, "1", PAID, None)
    assert park(store, granted, "1", PAID, None) == first == ("ok", "parked")
    assert len(events(store, kind="parked")) == 1
