"""Damaged data gets a typed answer, and nothing is written: no script fails half-way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.store import Claim, ClaimRefused, Store
from tests.support.cases import EachCase, cases_of
from tests.support.runs import (
    GRACE,
    LEASE,
    advance,
    claim,
    clock,
    commit,
    commit_end,
    commit_next,
    due,
    everything,
    fail_round,
    hash_of,
    later,
    new_run,
    pause_here,
    resume,
    stop,
    submit,
    sweep,
    try_claim,
)

#: The keys a transition of one run takes, and the type of each that is not its own.
SHARED = (
    "due",
    "queues",
    "index:live",
    "index:interrupted",
    "index:stopped",
    "index:completed",
    "index:errored",
)
RUN_KEYS = ("run", "memory", "events", "artifacts")
LISTS = ("controller", "executor")


def key_of(store: Store, name: str, run_id: str = "r") -> str:
    if name in LISTS:
        return store.keys.queue(name)
    if name in RUN_KEYS:
        keys = store.keys
        return {
            "run": keys.run,
            "memory": keys.memory,
            "events": keys.events,
            "artifacts": keys.artifacts,
        }[name](run_id)
    return f"{store.keys.prefix}:{name}"


def spoil(store: Store, key: str) -> None:
    """Put something of another type there, as a hand at the command line might."""
    store.redis.delete(key)
    store.redis.set(key, "not what it was")


def leased(store: Store) -> Claim:
    new_run(store)
    return claim(store)


def committing(store: Store) -> Callable[[], Any]:
    granted = leased(store)
    return lambda: commit_next(store, granted)


def ending(store: Store) -> Callable[[], Any]:
    granted = leased(store)
    return lambda: commit_end(store, granted)


def claiming(store: Store) -> Callable[[], Any]:
    new_run(store)
    return lambda: try_claim(store, epoch=0, step=0)


def claiming_what_is_to_stop(store: Store) -> Callable[[], Any]:
    call = claiming(store)
    store.redis.hset(store.keys.run("r"), "stop_current_execution", "stop_requested")
    return call


def committing_what_is_to_stop(store: Store) -> Callable[[], Any]:
    call = committing(store)
    stop(store)
    return call


def stopping(store: Store) -> Callable[[], Any]:
    new_run(store)
    return lambda: stop(store)


def resuming(store: Store) -> Callable[[], Any]:
    new_run(store)
    stop(store)
    return lambda: store.runs.resume("r", op="o", epoch=0, step=0, message="m", after="a")


def retrying(store: Store) -> Callable[[], Any]:
    fail_round(store, leased(store), fatal=1)
    return lambda: store.runs.retry("r", op="o", epoch=0, step=0, message="m", after="a")


def forfeiting(store: Store) -> Callable[[], Any]:
    new_run(store)
    claim(store, claim="host:7.1")
    return lambda: store.rounds.release_dead_lease("r", epoch=0, step=0, process="host:7")


def intending(store: Store) -> Callable[[], Any]:
    granted = leased(store)
    return lambda: [
        store.rounds.intend(
            "r", epoch=0, step=0, token=granted.token, claim=granted.id, key="r:0:k"
        )
    ]


def recording(store: Store) -> Callable[[], Any]:
    granted = leased(store)
    return lambda: store.rounds.record_result(
        "r", nonce=granted.fields["nonce"], step=0, name="charge", value="1"
    )


def tracing(store: Store) -> Callable[[], Any]:
    granted = leased(store)
    return lambda: store.runs.set_trace("r", nonce=granted.fields["nonce"], trace="t")


def asking_a_provider(store: Store) -> Callable[[], Any]:
    return lambda: store.rounds.ask_provider("refused", "p", "r:0:1", first=1_000, longest=60_000)


def deleting(store: Store) -> Callable[[], Any]:
    commit_end(store, leased(store))
    return lambda: store.runs.delete("r")


def submitting(store: Store) -> Callable[[], Any]:
    return lambda: submit(store)


def word(answer: Any) -> str:
    """Return the word of any transition's answer."""
    return (
        "ok"
        if isinstance(answer, Claim)
        else answer.word
        if isinstance(answer, ClaimRefused)
        else str(answer[0])
    )


TRANSITIONS = {
    made.__name__: made
    for made in (
        submitting,
        claiming,
        claiming_what_is_to_stop,
        intending,
        recording,
        tracing,
        asking_a_provider,
        committing,
        committing_what_is_to_stop,
        ending,
        stopping,
        forfeiting,
        resuming,
        retrying,
        deleting,
    )
}


#: Transitions that read the run's control fields.
READING = (
    "claiming",
    "intending",
    "recording",
    "tracing",
    "committing",
    "stopping",
    "forfeiting",
    "resuming",
    "retrying",
)


#: Indexes that the moves of every round neither write nor check. A claim writes to the run, its due
#: time and the counters; a commit that is followed by another round also writes to its history and
#: to the list of the next message. Facts about a provider are among the counters.
INDEXED = ("index:live", "index:interrupted", "index:stopped", "index:completed", "index:errored")
LEFT_ALONE = {
    "claiming": ("events", "artifacts", *INDEXED, *LISTS),
    "committing": (*INDEXED, "controller"),
    "asking_a_provider": (*RUN_KEYS, "due", *INDEXED, *LISTS),
}


def test_a_wrong_type_at_any_key_is_answered_before_any_write(
    fresh_store: Callable[[], Store], each_case: EachCase
) -> None:
    def check(transition: str, name: str) -> None:
        store = fresh_store()
        call = TRANSITIONS[transition](store)
        spoil(store, key_of(store, name))
        before = everything(store)
        answer = word(call())
        if transition == "deleting" and name in RUN_KEYS:
            assert answer == "ok", "it is removed whatever it is"
        elif name in LEFT_ALONE.get(transition, ()):
            assert answer in ("ok", "wait")
            assert store.redis.get(key_of(store, name)) == "not what it was"
        else:
            assert answer == "damaged"
            assert everything(store) == before

    each_case(cases_of(TRANSITIONS, [*RUN_KEYS, *SHARED, *LISTS]), check)


@pytest.mark.parametrize("name", ["run", "due", "executor", "memory", "events"])
def test_a_commit_names_the_key_whose_type_is_wrong(store: Store, name: str) -> None:
    granted = leased(store)
    spoil(store, key_of(store, name))
    assert commit_next(store, granted) == ("damaged", key_of(store, name))


@pytest.mark.parametrize("name", ["memory", "artifacts"])
def test_a_commit_that_keeps_no_text_asks_for_no_type(store: Store, name: str) -> None:
    granted = leased(store)
    spoil(store, key_of(store, name))
    assert commit_next(store, granted, additions=()) == ("ok", "continued")


@pytest.mark.parametrize("name", ["memory", "artifacts"])
def test_a_commit_that_keeps_a_text_asks_for_the_types_of_what_it_adds_to(
    store: Store, name: str
) -> None:
    granted = leased(store)
    spoil(store, key_of(store, name))
    before = everything(store)
    assert (
        commit(store, granted, "next", message="m", additions=("turn",), artifacts={"plan": "p"})[0]
        == "damaged"
    )
    assert everything(store) == before


@pytest.mark.parametrize("name", [*SHARED, *LISTS])
def test_a_sweep_that_finds_a_wrong_type_at_a_shared_key_drops_no_run(
    store: Store, name: str
) -> None:
    """A list overwritten by hand must not cost every due run its promise."""
    new_run(store, "lapsed")
    claim(store, "lapsed")
    new_run(store, "queued")
    sweep(store)
    spoil(store, key_of(store, name))
    later(store, 10 * LEASE)
    before = everything(store)
    sweep(store)
    assert everything(store) == before


@pytest.mark.parametrize("name", RUN_KEYS)
def test_a_wrong_type_at_one_run_hides_no_other_from_the_sweep(store: Store, name: str) -> None:
    new_run(store, "broken")
    new_run(store, "sound")
    claim(store, "broken")
    claim(store, "sound")
    spoil(store, key_of(store, name, "broken"))
    advance(store, LEASE)
    assert sorted(sweep(store)) == [("broken", "damaged"), ("sound", "freed")]
    assert store.redis.get(key_of(store, name, "broken")) == "not what it was"


def test_a_submit_whose_idempotency_key_has_a_wrong_type_is_answered(store: Store) -> None:
    store.redis.lpush(store.keys.idempotency("k"), "x")
    before = everything(store)
    assert submit(store, idempotency_key="k", content="c")[0] == "damaged"
    assert everything(store) == before


@pytest.mark.parametrize("text", ["", "c", "no id here "])
def test_a_submit_whose_idempotency_key_is_garbled_is_answered(store: Store, text: str) -> None:
    store.redis.set(store.keys.idempotency("k"), text)
    before = everything(store)
    assert submit(store, idempotency_key="k", content="c")[0] in ("damaged", "conflict")
    assert everything(store) == before


def test_a_submit_onto_a_run_that_lost_its_nonce_does_not_overwrite_it(store: Store) -> None:
    new_run(store)
    commit_next(store, claim(store))
    store.redis.hdel(store.keys.run("r"), "nonce")
    before = everything(store)
    assert submit(store, nonce="another")[0] in ("damaged", "exists")
    assert everything(store) == before


def test_a_submit_onto_what_is_left_of_another_run_does_not_inherit_it(store: Store) -> None:
    """Its hash is gone (evicted, deleted by hand), its history is not."""
    store.redis.rpush(store.keys.memory("r"), "an old turn")
    answer = submit(store)
    assert answer[0] == "damaged" or store.reads.memory("r") == []


CONTROL = ("epoch", "step", "token", "attempt", "created_at", "resend", "retention")
#: Counts that a run may lack, but not hold garbled.
OPTIONAL = ("failures", "losses", "number", "grace")
GARBAGE = ("", "x", "nan", "inf", "-1", "1.5", "0x10", "1e3", " 1", "9" * 400)


def test_a_missing_control_field_is_damaged_and_nothing_is_written(
    fresh_store: Callable[[], Store], each_case: EachCase
) -> None:
    def check(transition: str, field: str) -> None:
        store = fresh_store()
        call = TRANSITIONS[transition](store)
        store.redis.hdel(store.keys.run("r"), field)
        before = everything(store)
        assert word(call()) == "damaged"
        assert everything(store) == before

    fields = [*CONTROL, "id", "flow", "queue", "message", "current_node", "phase"]
    each_case(cases_of(READING, fields), check)


def test_a_garbled_control_field_is_damaged_and_nothing_is_written(
    fresh_store: Callable[[], Store], each_case: EachCase
) -> None:
    """Lua reads nan, inf, 0x10 and 1e3 as numbers; none is a count."""

    def check(transition: str, field: str) -> None:
        store = fresh_store()
        call = TRANSITIONS[transition](store)
        for text in GARBAGE:
            store.redis.hset(store.keys.run("r"), field, text)
            before = everything(store)
            assert word(call()) == "damaged", f"{field} = {text!r}"
            assert everything(store) == before

    each_case(cases_of(["ending", *READING], [*CONTROL, *OPTIONAL]), check)


def test_an_unknown_phase_is_damaged(fresh_store: Callable[[], Store], each_case: EachCase) -> None:
    def check(transition: str, text: str) -> None:
        store = fresh_store()
        call = TRANSITIONS[transition](store)
        store.redis.hset(store.keys.run("r"), "phase", text)
        before = everything(store)
        assert word(call()) == "damaged"
        assert everything(store) == before

    each_case(cases_of(READING, ["", "asleep", "Queued"]), check)


@pytest.mark.parametrize("field", ["id", "lease_granted", "token"])
@pytest.mark.parametrize("text", [None, "x"])
def test_a_damaged_run_does_not_cost_its_neighbours_their_heartbeat(
    store: Store, field: str, text: str | None
) -> None:
    """One process beats for many runs in one call: a script that fails on one lets every lease
    lapse.
    """
    leases = [
        (new_run(store, run_id), claim(store, run_id).token, "")
        for run_id in ("before", "broken", "behind")
    ]
    if text is None:
        store.redis.hdel(store.keys.run("broken"), field)
    else:
        store.redis.hset(store.keys.run("broken"), field, text)
    later(store, 1_000)
    first, broken, last = store.rounds.extend(leases)
    assert (first, last) == ("ok", "ok")
    assert due(store, "behind") == clock(store) + LEASE
    assert broken in ("damaged", "lost") or field == "id"


@pytest.mark.parametrize("text", ["x", "-1", "1e3"])
def test_a_lease_length_that_does_not_read_is_told_and_not_written_over(
    store: Store, text: str
) -> None:
    token = leased(store).token
    store.redis.hset(store.keys.run("r"), "lease_granted", text)
    before = everything(store)
    later(store, 1_000)
    assert store.rounds.extend([("r", token, "")]) == ["damaged"]
    assert everything(store) == before


def test_a_garbled_round_limit_does_not_cost_the_neighbours_their_heartbeat(store: Store) -> None:
    leases = [
        (new_run(store, run_id, fields={"round_timeout": "9000"}), claim(store, run_id).token, "")
        for run_id in ("broken", "behind")
    ]
    store.redis.hset(store.keys.run("broken"), "round_until", "x")
    assert store.rounds.extend(leases)[1] == "ok"


def test_an_interrupt_that_lost_its_id_is_damaged_and_skips_no_approval(store: Store) -> None:
    pause_here(store, leased(store))
    store.redis.hdel(store.keys.run("r"), "i_id")
    before = everything(store)
    assert resume(store)[0] == "damaged"
    assert everything(store) == before


@pytest.mark.parametrize("field", ["i_status", "i_node", "i_reason"])
def test_a_question_that_cannot_be_asked_again_is_damaged_and_nothing_is_written(
    store: Store, field: str
) -> None:
    pause_here(store, leased(store))
    stop(store)
    store.redis.hdel(store.keys.run("r"), field)
    before = everything(store)
    assert resume(store)[0] == "damaged"
    assert everything(store) == before


@pytest.mark.parametrize("text", ["x", "", "1.5"])
def test_a_garbled_push_count_does_not_break_a_commit_half_way(store: Store, text: str) -> None:
    granted = leased(store)
    store.redis.hset(store.keys.queues, f"{store.keys.queue('executor')}:pushed", text)
    before = everything(store)
    assert commit_next(store, granted)[0] == "damaged"
    assert everything(store) == before


@pytest.mark.parametrize("transition", ["resuming", "retrying"])
def test_a_garbled_push_count_does_not_break_a_resume_or_a_retry_half_way(
    store: Store, transition: str
) -> None:
    call = TRANSITIONS[transition](store)
    store.redis.hset(store.keys.queues, f"{store.keys.queue('controller')}:pushed", "x")
    before = everything(store)
    assert word(call()) == "damaged"
    assert everything(store) == before


@pytest.mark.parametrize("field", ["swept_at", "silent_from", "silent_until"])
def test_a_garbled_sweep_time_does_not_stop_the_sweeps(store: Store, field: str) -> None:
    leased(store)
    sweep(store)
    store.redis.hset(
        store.keys.queues, mapping={"silent_from": 1, "silent_until": 2, "swept_at": str(store.now)}
    )
    store.redis.hset(store.keys.queues, field, "x")
    for _ in range(4):
        later(store, LEASE // 2)
        sweep(store)
    assert hash_of(store)["losses"] == "1" or hash_of(store).get("spared")


def test_a_queued_run_that_lost_its_time_is_still_looked_for(store: Store) -> None:
    new_run(store, "a")
    new_run(store, "b")
    store.redis.hdel(store.keys.run("b"), "queued_at")
    advance(store, GRACE)
    sweep(store)
    later = due(store, "b")
    assert later is None or later - clock(store) < 1_000 * GRACE


def test_a_garbled_deadline_does_not_end_the_run_as_late(store: Store) -> None:
    new_run(store, deadline=60_000)
    store.redis.hset(store.keys.run("r"), "deadline", "x")
    advance(store, GRACE)
    [(_, word)] = sweep(store)
    assert word == "damaged" or "deadline" not in hash_of(store).get("error", "")


def test_damage_that_the_sweep_finds_is_told_and_not_looked_at_again(store: Store) -> None:
    new_run(store)
    claim(store)
    store.redis.hset(store.keys.run("r"), "epoch", "x")
    advance(store, LEASE)
    before = hash_of(store)
    assert sweep(store) == [("r", "damaged")]
    assert hash_of(store) == before and due(store) is None
    assert sweep(store) == []
