"""claim_round: exactly one delivery wins a round, and the passing of time changes no winner."""

from __future__ import annotations

import pytest

from perdure.worker.store import Claim, ClaimRefused, Store
from perdure.worker.store.replies import BETWEEN
from tests.support.runs import (
    LEASE,
    START,
    advance,
    assert_lawful,
    at,
    claim,
    commit,
    commit_end,
    commit_next,
    due,
    due_in,
    events,
    everything,
    fail_round,
    hash_of,
    later,
    messages,
    new_run,
    pause_next,
    phase,
    resume,
    stop,
    sweep,
    sweep_after,
    try_claim,
)


def test_a_claim_takes_the_lease_and_a_greater_token(store: Store) -> None:
    new_run(store)
    granted = claim(store, owner="w1")
    assert (granted.token, granted.attempt, granted.lease_until) == ("1", 1, START + LEASE)
    fields = hash_of(store)
    assert (fields["phase"], fields["owner"], fields["token"], fields["attempt"]) == (
        "leased",
        "w1",
        "1",
        "1",
    )
    assert due(store) == START + LEASE
    assert_lawful(store)


def test_a_claim_repeated_with_its_id_gets_the_same_reply(store: Store) -> None:
    new_run(store)
    first = try_claim(store, claim="delivery-1")
    before = everything(store)
    later(store, 1_000)
    again = try_claim(store, claim="delivery-1")
    assert isinstance(first, Claim) and isinstance(again, Claim)
    assert (again.token, again.attempt, again.lease_until, again.turns, again.newest) == (
        first.token, first.attempt, first.lease_until, first.turns, first.newest,
    )  # fmt: skip
    assert again.fields == first.fields
    assert everything(store) == before


def test_a_duplicate_of_a_leased_round_is_refused(store: Store) -> None:
    new_run(store)
    claim(store)
    before = everything(store)
    assert try_claim(store, owner="w2") == ClaimRefused("leased")
    assert everything(store) == before


def test_a_leased_run_is_refused_whatever_the_clock_says(store: Store) -> None:
    """A duplicate would take a lapsed lease uncounted: only the sweep and stop-now take a lease
    away.
    """
    new_run(store)
    claim(store)
    advance(store, 100 * LEASE)
    before = everything(store)
    assert try_claim(store, owner="w2") == ClaimRefused("leased")
    assert everything(store) == before


@pytest.mark.parametrize(("epoch", "step"), [(0, 0), (0, 2), (1, 1), (9, 9)])
def test_another_epoch_or_step_is_stale(store: Store, epoch: int, step: int) -> None:
    new_run(store)
    commit_next(store, claim(store))
    assert at(store) == (0, 1)
    before = everything(store)
    assert try_claim(store, epoch=epoch, step=step) == ClaimRefused("stale")
    assert everything(store) == before


def test_a_message_of_an_ended_run_finds_it_finished(store: Store) -> None:
    new_run(store)
    commit_end(store, claim(store))
    before = everything(store)
    assert try_claim(store) == ClaimRefused("finished", "completed")
    assert everything(store) == before


def test_a_message_of_an_errored_run_finds_it_finished(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store), fatal=1)
    before = everything(store)
    assert try_claim(store) == ClaimRefused("finished", "errored")
    assert everything(store) == before


def test_a_message_of_a_stopped_run_finds_it_finished(store: Store) -> None:
    new_run(store)
    stop(store)
    assert try_claim(store) == ClaimRefused("finished", "stopped")


def test_a_duplicate_does_not_walk_through_a_backoff(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store), delay=5_000)
    before = everything(store)
    assert try_claim(store) == ClaimRefused("early", "waiting")
    later(store, 60_000)
    assert try_claim(store) == ClaimRefused("early", "waiting"), (
        "its time has come, but only the sweep wakes it"
    )
    assert everything(store) == before


def test_a_message_does_not_walk_through_an_interrupt(store: Store) -> None:
    new_run(store)
    pause_next(store, claim(store))
    before = everything(store)
    assert try_claim(store) == ClaimRefused("early", "interrupted")
    assert everything(store) == before


def test_a_message_of_the_epoch_to_come_does_not_answer_an_interrupt(store: Store) -> None:
    new_run(store)
    pause_next(store, claim(store))
    epoch, step = at(store)
    assert try_claim(store, epoch=epoch + 1, step=step) == ClaimRefused("stale")


def test_a_message_for_no_run_is_harmless(store: Store) -> None:
    before = everything(store)
    assert try_claim(store, "nobody", epoch=0, step=0) == ClaimRefused("missing")
    assert everything(store) == before


def test_a_flow_unknown_to_this_worker_waits_without_lease_or_attempt(store: Store) -> None:
    new_run(store)
    assert try_claim(store, known=("other",), back=700) == ClaimRefused("unknown", "ring")
    fields = hash_of(store)
    assert (fields["phase"], fields["waiting_for"]) == ("waiting", "flow")
    assert (
        (fields["token"], fields["attempt"]) == ("0", "0")
        and "owner" not in fields
        and "claim_id" not in fields
    )
    assert due(store) == START + 700


def test_a_part_of_a_known_name_is_not_a_known_flow(store: Store) -> None:
    new_run(store)
    assert try_claim(store, known=("string", "rings", "r")) == ClaimRefused("unknown", "ring")


def test_a_run_given_back_for_its_flow_is_offered_again(store: Store) -> None:
    new_run(store)
    store.redis.delete(store.keys.queue("controller"))
    try_claim(store, known=(), back=700)
    assert sweep_after(store, 700) == [("r", "woken")]
    assert messages(store) == ["r/0/0"]
    assert claim(store).attempt == 1


def test_a_run_of_a_newer_schema_is_offered_to_others_and_one_of_our_own_is_played(
    store: Store,
) -> None:
    new_run(store)
    store.redis.hset(store.keys.run("r"), "schema", "7")
    asked = {"epoch": 0, "step": 0, "owner": "w1", "lease": LEASE, "known": ("ring",)}
    refused = store.rounds.claim("r", claim="one", schema="6", **asked)
    assert refused == ClaimRefused("unknown", "ring")
    fields = hash_of(store)
    assert (fields["phase"], fields["token"], fields["attempt"], fields["schema"]) == (
        "waiting",
        "0",
        "0",
        "7",
    )
    sweep_after(store, 1_000)
    assert isinstance(store.rounds.claim("r", claim="two", schema="7", **asked), Claim)


def test_a_flows_name_is_not_read_as_a_pattern(store: Store) -> None:
    new_run(store, fields={"flow": "ring.v2"})
    assert try_claim(store, known=("ring-v2",)) == ClaimRefused("unknown", "ring.v2")


def test_the_wait_for_a_worker_that_knows_the_flow_doubles_up_to_its_bound_and_starts_anew(
    store: Store,
) -> None:
    new_run(store)

    def refused() -> int:
        assert store.rounds.claim(
            "r",
            epoch=0,
            step=0,
            claim="c",
            owner="w",
            lease=LEASE,
            known=("other",),
            back=1_000,
            back_max=3_000,
        ) == ClaimRefused("unknown", "ring")
        wait = due_in(store)
        sweep_after(store, wait)
        return wait

    assert [refused() for _ in range(4)] == [1_000, 2_000, 3_000, 3_000]
    commit(store, claim(store), "give_back")
    assert refused() == 1_000, "one that knows it was there"


def test_a_stop_asked_is_honoured_at_the_claim(store: Store) -> None:
    new_run(store)
    store.redis.hset(
        store.keys.run("r"),
        mapping={"stop_current_execution": "stop_requested", "stop_mode": "graceful"},
    )
    assert try_claim(store) == ClaimRefused("stopped")
    assert phase(store) == "stopped"


def test_the_attempts_of_a_step_are_counted_and_never_restarted(store: Store) -> None:
    new_run(store)
    attempts = []
    for op in ("a", "b", "c"):
        granted = claim(store)
        attempts.append(granted.attempt)
        stop(store, "now", op)
        later(store, LEASE)
        assert resume(store, f"resume-{op}") == ["queued"]
    assert attempts == [1, 2, 3]


def test_a_new_step_starts_at_attempt_one(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store))
    sweep_after(store, 1_000)
    commit_next(store, claim(store))
    assert claim(store).attempt == 1


def test_tokens_only_grow(store: Store) -> None:
    new_run(store)
    tokens = []
    for lost in (True, False, True, False):
        granted = claim(store)
        tokens.append(int(granted.token))
        if lost:
            sweep_after(store, LEASE)
        else:
            commit_next(store, granted)
    assert tokens == [1, 2, 3, 4]


def test_tokens_grow_though_their_counter_was_lost(store: Store) -> None:
    new_run(store)
    for _ in range(3):
        commit(store, claim(store), "give_back")
    store.redis.hdel(store.keys.queues, "token")
    assert claim(store).token == "4"


def test_the_reply_brings_the_fields_and_the_newest_turns(store: Store) -> None:
    new_run(store)
    commit_next(store, claim(store), additions=tuple(f"turn {number}" for number in range(20)))
    granted = claim(store)
    assert granted.turns == 20
    assert granted.newest == [f"turn {number}" for number in range(12, 20)]
    assert granted.fields["current_node"] == "Executor" and granted.fields["phase"] == "leased"


def test_a_claim_moves_the_cursor_of_its_list_forward_and_never_back(store: Store) -> None:
    for run_id in ("a", "b", "c"):
        new_run(store, run_id)
    cursor = f"{store.keys.queue('controller')}:cursor"
    claim(store, "b")
    assert store.redis.hget(store.keys.queues, cursor) == "2"
    claim(store, "a")
    assert store.redis.hget(store.keys.queues, cursor) == "2"
    claim(store, "c")
    assert store.redis.hget(store.keys.queues, cursor) == "3"


def test_a_flow_may_ask_for_a_longer_lease_than_the_workers(store: Store) -> None:
    new_run(store, "long", fields={"lease": "9000"})
    new_run(store, "short", fields={"lease": "10"})
    assert claim(store, "long").lease_until == START + 9_000
    assert claim(store, "short").lease_until == START + LEASE


def test_a_claim_that_was_freed_meanwhile_is_granted_anew_and_counted(store: Store) -> None:
    """claim, reply lost > the worker stalls > sweep > the same claim re-sent."""
    new_run(store)
    try_claim(store, claim="delivery-1")
    assert sweep_after(store, LEASE) == [("r", "freed")]
    again = try_claim(store, claim="delivery-1")
    assert isinstance(again, Claim) and (again.token, again.attempt) == ("2", 2)
    assert events(store, kind="lost") != []
    assert sweep(store) == []


@pytest.mark.parametrize("where", ["goal", "v:text", "i_answer"])
def test_a_text_that_holds_what_stands_between_texts_is_told_as_it_is(
    store: Store, where: str
) -> None:
    """A claim's reply is one text; an ambiguous text is read from the hash instead."""
    new_run(store, fields={where: f"a{BETWEEN}b"})
    granted = claim(store)
    assert granted.fields[where] == f"a{BETWEEN}b"
    assert granted.fields == hash_of(store) and granted.token == hash_of(store)["token"]


def test_a_turn_that_holds_what_stands_between_texts_is_told_as_it_is(store: Store) -> None:
    new_run(store)
    commit_next(store, claim(store), additions=("one", f"t{BETWEEN}wo"))
    assert claim(store).newest == ["one", f"t{BETWEEN}wo"]
