"""A paused flow: its runs are not claimed, keep all they have, and go on once it is unpaused."""

from __future__ import annotations

from perdure.worker.store import Claim, ClaimRefused, Store
from perdure.worker.store.tables import BATCH
from tests.support.runs import (
    GRACE,
    LEASE,
    START,
    assert_lawful,
    claim,
    clock,
    commit_next,
    due,
    due_in,
    everything,
    hash_of,
    messages,
    new_run,
    phase,
    resume,
    stop,
    sweep_after,
    take,
    try_claim,
)


def held(store: Store, run_id: str = "r") -> None:
    """Make a run that was given back at its claim, because its flow is paused."""
    new_run(store, run_id)
    store.pauses.add("ring")
    take(store)
    assert try_claim(store, run_id) == ClaimRefused("paused", "ring")


def test_a_run_of_a_paused_flow_waits_without_lease_or_attempt(store: Store) -> None:
    held(store)
    fields = hash_of(store)
    assert (fields["phase"], fields["waiting_for"]) == ("waiting", "paused")
    assert (fields["token"], fields["attempt"], fields["epoch"], fields["step"]) == (
        "0",
        "0",
        "0",
        "0",
    )
    assert "owner" not in fields and "claim_id" not in fields
    assert due(store) == START + Store.paused_look
    assert_lawful(store)


def test_a_run_of_another_flow_is_not_held(store: Store) -> None:
    store.pauses.add("string")
    store.pauses.add("rin")
    new_run(store)
    assert isinstance(try_claim(store), Claim)


def test_a_paused_flow_that_this_worker_does_not_know_is_paused_all_the_same(store: Store) -> None:
    """Otherwise its runs would be offered to worker after worker."""
    new_run(store)
    store.pauses.add("ring")
    assert try_claim(store, known=()) == ClaimRefused("paused", "ring")


def test_the_round_in_flight_finishes_and_the_next_is_held(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.pauses.add("ring")
    assert store.rounds.extend([("r", granted.token, "")]) == ["ok"]
    assert commit_next(store, granted) == ("ok", "continued")
    assert try_claim(store) == ClaimRefused("paused", "ring")
    assert hash_of(store)["step"] == "1"
    assert_lawful(store)


def test_a_claim_granted_before_the_pause_is_repeated_after_it(store: Store) -> None:
    """Its reply was lost: the round is in flight already."""
    new_run(store)
    first = try_claim(store, claim="delivery-1")
    store.pauses.add("ring")
    again = try_claim(store, claim="delivery-1")
    assert isinstance(first, Claim) and isinstance(again, Claim) and again.token == first.token


def test_a_duplicate_does_not_walk_through_a_pause(store: Store) -> None:
    held(store)
    store.redis.delete(store.keys.paused)
    before = everything(store)
    assert try_claim(store) == ClaimRefused("early", "waiting")
    assert everything(store) == before


def test_unpausing_makes_the_held_runs_due_at_once(store: Store) -> None:
    held(store)
    sweep_after(store, GRACE)
    assert store.pauses.remove("ring") == 1
    assert due(store) == clock(store)
    assert_lawful(store)
    assert sweep_after(store, 0) == [("r", "woken")]
    assert messages(store) == ["r/0/0"]
    assert claim(store).attempt == 1


def test_unpausing_finds_every_held_run_however_many(store: Store) -> None:
    store.pauses.add("ring")
    ids = [f"r{number}" for number in range(BATCH + 50)]
    for run_id in ids:
        new_run(store, run_id)
        try_claim(store, run_id)
    assert store.pauses.remove("ring") == len(ids)
    assert {due(store, run_id) for run_id in ids} == {clock(store)}


def test_unpausing_moves_no_run_that_waits_for_something_else(store: Store) -> None:
    new_run(store, "later", phase="waiting", delay=60_000)
    new_run(store, "other", fields={"flow": "string"})
    new_run(store, "leased")
    claim(store, "leased")
    new_run(store, "asks", phase="interrupted", fields={"i_wait": "5000"})
    store.pauses.add("string")
    try_claim(store, "other", known=("string",))
    store.pauses.add("ring")
    new_run(store, "queued")
    store.redis.hdel(store.keys.paused, "ring")
    before = everything(store)
    assert store.pauses.remove("ring") == 0
    assert everything(store) == before


def test_a_run_of_another_paused_flow_is_not_offered(store: Store) -> None:
    new_run(store, fields={"flow": "string"})
    store.pauses.add("string")
    assert try_claim(store, known=("string",)) == ClaimRefused("paused", "string")
    before = everything(store)
    assert store._call(
        "requeue_paused", [store.keys.due, store.keys.run("r")], {"flow": "ring"}
    ) == ["other"]
    assert everything(store) == before


def test_a_run_that_lost_its_id_is_not_offered(store: Store) -> None:
    held(store)
    store.redis.hdel(store.keys.run("r"), "id")
    before = everything(store)
    reply = store._call("requeue_paused", [store.keys.due, store.keys.run("r")], {"flow": "ring"})
    assert reply == ["other"] and everything(store) == before


def test_a_copy_of_a_held_run_is_not_offered(store: Store) -> None:
    held(store)
    store.redis.copy(store.keys.run("r"), store.keys.run("copy"))
    before = everything(store)
    keys = [store.keys.due, store.keys.run("copy")]
    assert store._call("requeue_paused", keys, {"flow": "ring"}) == ["other"]
    assert everything(store) == before


def test_unpausing_twice_changes_nothing_more(store: Store) -> None:
    held(store)
    store.pauses.remove("ring")
    sweep_after(store, 0)
    before = everything(store)
    assert store.pauses.remove("ring") == 0
    assert everything(store) == before


def test_a_flow_paused_again_before_its_runs_were_offered_holds_them(store: Store) -> None:
    held(store)
    store.pauses.remove("ring")
    store.pauses.add("ring")
    assert sweep_after(store, 0) == [("r", "in_line")]
    assert phase(store) == "waiting" and messages(store) == []
    assert due_in(store) > GRACE


def test_runs_are_found_by_the_sweep_where_unpausing_broke_off(store: Store) -> None:
    held(store)
    store.redis.hdel(store.keys.paused, "ring")  # and then its process died
    assert sweep_after(store, Store.paused_look - 1) == []
    assert sweep_after(store, 1) == [("r", "woken")]
    assert claim(store).attempt == 1


def test_while_a_flow_is_paused_no_message_is_sent_for_its_held_runs(store: Store) -> None:
    held(store)
    for _ in range(10):
        assert sweep_after(store, 2 * Store.paused_look) == [("r", "in_line")]
        assert Store.paused_look // 2 <= due_in(store) <= 3 * Store.paused_look // 2
        assert_lawful(store)
    assert messages(store) == []
    assert store.pauses.remove("ring") == 1


def test_a_held_run_is_stopped_and_does_not_come_back_with_its_flow(store: Store) -> None:
    held(store)
    assert stop(store)[:2] == ["stopped", "stopped"]
    assert store.pauses.remove("ring") == 0
    assert_lawful(store)
    assert phase(store) == "stopped" and due(store) is None


def test_a_run_resumed_under_a_pause_is_held_at_its_claim(store: Store) -> None:
    held(store)
    stop(store)
    assert resume(store) == ["queued"]
    assert try_claim(store) == ClaimRefused("paused", "ring")


def test_a_stop_asked_beats_the_pause(store: Store) -> None:
    new_run(store)
    store.pauses.add("ring")
    store.redis.hset(
        store.keys.run("r"),
        mapping={"stop_current_execution": "stop_requested", "stop_mode": "graceful"},
    )
    assert try_claim(store) == ClaimRefused("stopped")


def test_the_deadline_of_a_held_run_still_ends_it(store: Store) -> None:
    new_run(store, deadline=5_000)
    store.pauses.add("ring")
    try_claim(store)
    assert due_in(store) == 5_000
    assert sweep_after(store, 5_000) == [("r", "errored")]


def test_a_lost_worker_under_a_pause_gives_its_round_to_nobody(store: Store) -> None:
    new_run(store)
    claim(store)
    store.pauses.add("ring")
    assert sweep_after(store, LEASE) == [("r", "freed")]
    assert try_claim(store, owner="w2") == ClaimRefused("paused", "ring")
    store.pauses.remove("ring")
    sweep_after(store, 0)
    assert claim(store).attempt == 2


def test_the_first_pause_is_the_one_that_is_told(store: Store) -> None:
    assert store.pauses.add("ring", "ann", "the model is down") is True
    assert store.pauses.add("ring", "bob") is False
    assert store.pauses.all() == {"ring": {"at": START, "by": "ann", "reason": "the model is down"}}
    store.pauses.remove("ring")
    assert store.pauses.all() == {}


def test_a_damaged_key_of_pauses_is_answered_before_any_write(store: Store) -> None:
    new_run(store)
    store.redis.set(store.keys.paused, "x")
    before = everything(store)
    assert try_claim(store) == ClaimRefused("damaged", store.keys.paused)
    assert everything(store) == before
