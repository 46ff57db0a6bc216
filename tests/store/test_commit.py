"""commit_round: one write makes a round real, and only the newest token makes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import Claim, Store
from tests.support.runs import (
    GRACE,
    LEASE,
    RETENTION,
    START,
    advance,
    assert_lawful,
    at,
    by_token_alone,
    claim,
    commit,
    commit_end,
    commit_next,
    due,
    events,
    everything,
    fail_round,
    hash_of,
    indexes,
    later,
    message,
    messages,
    new_run,
    pause_at,
    pause_here,
    pause_next,
    phase,
    resume,
    retry,
    stop,
    sweep_after,
    take,
    try_claim,
)

#: Fields that are only about the round that a worker plays.
OF_THE_ROUND = (
    "claim_id", "owner", "lease_until", "round_until", "claimed_at", "progress", "traceback",
    "spared", "last_error", "intent", "intent_token", "intent_at", "intent_by",
)  # fmt: skip


@pytest.mark.parametrize("done", [commit_next, pause_next])
def test_a_round_that_is_done_leaves_nothing_of_its_own(
    store: Store, done: Callable[[Store, Claim], tuple[str, str]]
) -> None:
    new_run(store)
    granted = claim(store)
    for name in OF_THE_ROUND:
        store.redis.hsetnx(store.keys.run("r"), name, str(START))
    assert done(store, granted)[0] == "ok"
    assert not set(OF_THE_ROUND) & set(hash_of(store))


def test_next_writes_state_memory_event_due_time_and_message_at_once(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    later(store, 10)
    assert commit_next(store, granted, "Executor", ("turn",), **{"v:x": "1"}) == ("ok", "continued")
    fields = hash_of(store)
    assert (fields["step"], fields["current_node"], fields["last_node"], fields["v:x"]) == (
        "1",
        "Executor",
        "Controller",
        "1",
    )
    assert store.reads.memory("r") == ["turn"]
    assert [(event["step"], event["node"]) for event in events(store, kind="committed")] == [
        ("0", "Controller")
    ]
    assert messages(store, "executor") == ["r/0/1"] == [fields["message"]] and messages(store) == []
    assert due(store) == START + 10 + GRACE
    assert "owner" not in fields and "lease_until" not in fields
    assert_lawful(store)


def test_no_message_for_the_next_step_before_its_commit(store: Store) -> None:
    new_run(store)
    claim(store)
    assert messages(store) == [] == messages(store, "executor")


def test_end_completes_the_run_and_ends_its_promise(store: Store) -> None:
    new_run(store)
    assert commit_end(store, claim(store)) == ("ok", "completed")
    fields = hash_of(store)
    assert (fields["status"], fields["phase"], fields["answer"], fields["step"]) == (
        "completed",
        "completed",
        '"42"',
        "1",
    )
    assert due(store) is None and indexes(store) == ["completed"] and messages(store) == []
    assert [event["type"] for event in events(store)] == ["submitted", "committed", "completed"]
    assert_lawful(store)


@pytest.mark.parametrize(
    "kind", ["next", "end", "pause_next", "pause_here", "failed", "give_back", "damaged"]
)
def test_a_commit_repeated_with_the_last_token_gets_the_last_answer(
    store: Store, kind: str
) -> None:
    new_run(store)
    granted = claim(store)
    first = settle(store, granted, kind)
    assert first[0] == "ok"
    before = everything(store)
    later(store, 1)
    assert settle(store, granted, kind) == first
    assert everything(store) == before


@pytest.mark.parametrize(
    "kind", ["next", "end", "pause_next", "pause_here", "failed", "give_back", "damaged"]
)
def test_a_commit_repeated_while_the_next_round_is_played_gets_its_answer(
    store: Store, kind: str
) -> None:
    new_run(store)
    granted = claim(store)
    first = settle(store, granted, kind)
    if first[1] not in ("continued", "queued"):
        return
    claim(store)
    before = everything(store)
    assert settle(store, granted, kind) == first
    assert everything(store) == before


@pytest.mark.parametrize(
    "kind", ["next", "end", "pause_next", "pause_here", "failed", "give_back", "damaged"]
)
def test_an_older_token_is_fenced(store: Store, kind: str) -> None:
    """claim > lease lapses > swept > claimed by another > the first one wakes up."""
    new_run(store)
    zombie = claim(store, owner="w1")
    assert sweep_after(store, LEASE) == [("r", "freed")]
    claim(store, owner="w2")
    before = everything(store)
    assert settle(store, zombie, kind) == ("fenced", "")
    assert everything(store) == before


def test_a_token_swept_away_is_fenced_before_anybody_claims_again(store: Store) -> None:
    new_run(store)
    zombie = claim(store)
    sweep_after(store, LEASE)
    before = everything(store)
    assert (
        commit_next(store, zombie) == commit_next(store, by_token_alone(zombie)) == ("fenced", "")
    )
    assert everything(store) == before


@pytest.mark.parametrize(("epoch", "step"), [(1, 0), (0, 1)])
def test_another_epoch_or_step_is_fenced(store: Store, epoch: int, step: int) -> None:
    new_run(store)
    granted = claim(store)
    before = everything(store)
    assert store.rounds.commit(
        "r", epoch=epoch, step=step, token=granted.token, kind="end", fields={"answer": "1"}
    ) == ("fenced", "")
    assert everything(store) == before


@pytest.mark.parametrize("token", ["0", "2", "", "01", "1.0"])
def test_a_token_that_was_not_granted_is_fenced(store: Store, token: str) -> None:
    new_run(store)
    claim(store)
    before = everything(store)
    assert store.rounds.commit(
        "r", epoch=0, step=0, token=token, kind="end", fields={"answer": "1"}
    ) == (
        "fenced",
        "",
    )
    assert everything(store) == before


def test_a_lease_that_lapsed_but_was_not_swept_is_still_good(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    advance(store, 50 * LEASE)
    assert commit_next(store, granted) == ("ok", "continued")


def test_a_commit_for_no_run_is_missing(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.redis.delete(store.keys.run("r"), store.keys.events("r"))
    before = everything(store)
    assert commit_next(store, granted)[0] == "missing"
    assert everything(store) == before


def test_pause_next_stores_the_next_node_and_the_question_in_the_same_write(store: Store) -> None:
    new_run(store)
    assert pause_next(store, claim(store)) == ("ok", "interrupted")
    fields = hash_of(store)
    assert (fields["step"], fields["current_node"], fields["status"]) == (
        "1",
        "Executor",
        "interrupted_before",
    )
    assert (fields["interrupted_node"], fields["interrupt_reason"]) == (
        "Executor",
        "interrupt_before: Executor",
    )
    assert messages(store, "executor") == []
    assert due(store) is None
    assert_lawful(store)


def test_pause_here_commits_no_step_and_keeps_the_attempt(store: Store) -> None:
    new_run(store)
    assert pause_here(store, claim(store), i_data='{"k":1}') == ("ok", "interrupted")
    fields = hash_of(store)
    assert (fields["step"], fields["attempt"], fields["current_node"]) == ("0", "1", "Controller")
    assert (fields["status"], fields["interrupt_reason"], fields["interrupt_data"]) == (
        "interrupted_before",
        "may I?",
        '{"k":1}',
    )
    assert events(store, kind="committed") == [] and store.reads.memory("r") == []
    assert_lawful(store)


def test_a_pause_with_a_deadline_is_due_at_it(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store), i_wait="30000", i_default='"no"')
    assert due(store) == START + 30_000
    assert_lawful(store)


def test_a_pause_without_a_deadline_is_not_due(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store))
    assert due(store) is None


def test_the_pause_comes_again_at_the_next_visit(store: Store) -> None:
    new_run(store)
    pause_next(store, claim(store), "Executor")
    resume(store)
    commit_next(store, claim(store), "Controller")
    assert pause_next(store, claim(store), "Executor") == ("ok", "interrupted")
    assert hash_of(store)["i_id"] == "1:3", "another visit is another question"


def test_an_answer_is_consumed_by_the_commit(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store))
    resume(store, answer='"yes"')
    granted = claim(store)
    assert granted.fields["i_answer"] == '"yes"'
    commit_next(store, granted)
    assert not [name for name in hash_of(store) if name.startswith("i_")]


def test_an_answer_outlives_a_failed_attempt(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store))
    resume(store, answer='"yes"')
    fail_round(store, claim(store))
    sweep_after(store, 1_000)
    assert claim(store).fields["i_answer"] == '"yes"'


def test_a_second_question_of_the_same_round_does_not_carry_the_first_answer(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store), i_data='{"n":1}', i_wait="1000", i_default="1")
    resume(store, answer='"yes"')
    pause_here(store, claim(store))
    fields = hash_of(store)
    assert fields["i_id"] == "1:0"
    assert not {"i_answer", "i_data", "i_wait", "i_default", "interrupt_data"} & set(fields)


def test_a_failed_round_waits_and_keeps_its_step(store: Store) -> None:
    new_run(store)
    assert fail_round(store, claim(store), delay=1_500) == ("ok", "waiting")
    fields = hash_of(store)
    assert (fields["step"], fields["failures"], fields["waiting_for"], fields["last_error"]) == (
        "0",
        "1",
        "retry",
        "boom",
    )
    assert due(store) == START + 1_500 and messages(store) == []
    assert_lawful(store)


def test_failures_over_the_bound_end_the_run_errored(store: Store) -> None:
    new_run(store)
    answers = []
    for _ in range(3):
        answers.append(fail_round(store, claim(store), max_failures=3, delay=100)[1])
        sweep_after(store, 100)
    assert answers == ["waiting", "waiting", "errored"]
    fields = hash_of(store)
    assert (fields["phase"], fields["status"], fields["error"]) == ("errored", "error", "boom")
    assert due(store) is None and indexes(store) == ["errored"]


def test_a_wait_for_a_provider_is_no_failure(store: Store) -> None:
    new_run(store)
    for _ in range(5):
        assert fail_round(
            store, claim(store), uncounted=1, max_failures=1, delay=100, within=86_400_000
        ) == ("ok", "waiting")
        fields = hash_of(store)
        assert (fields["failures"], fields["waiting_for"], fields["last_error"]) == (
            "0",
            "provider",
            "boom",
        )
        assert_lawful(store)
        sweep_after(store, 100)
    waits = [
        event for _, event in store.redis.xrange(store.keys.events("r")) if event["type"] == "waits"
    ]
    assert [(event["since"], event["waits"], event["reason"]) for event in waits] == [
        (str(START), str(n), "boom") for n in range(1, 6)
    ]
    assert waits[-1]["until"] == str(START + 500)


def test_a_wait_for_a_provider_ends_with_its_patience(store: Store) -> None:
    new_run(store)
    bounds = {"uncounted": 1, "within": 250, "delay": 200, "spent": "patience"}
    assert (
        fail_round(store, claim(store), **bounds) == ("ok", "waiting") and due(store) == START + 200
    )
    sweep_after(store, 200)
    assert (
        fail_round(store, claim(store), **bounds) == ("ok", "waiting") and due(store) == START + 250
    )
    sweep_after(store, 50)
    granted = claim(store)
    assert fail_round(store, granted, **bounds) == ("ok", "errored")
    assert (hash_of(store)["error"], hash_of(store)["last_error"]) == ("patience", "boom")
    assert fail_round(store, granted, **bounds) == ("ok", "errored"), (
        "a commit repeated gets its first answer"
    )


def test_patience_begins_anew_with_each_step_and_each_retry(store: Store) -> None:
    new_run(store)
    bounds = {"uncounted": 1, "within": 100, "delay": 100}
    fail_round(store, claim(store), **bounds)
    sweep_after(store, 100)
    commit_next(store, claim(store))
    assert fail_round(store, claim(store), **bounds) == ("ok", "waiting")
    sweep_after(store, 100)
    assert fail_round(store, claim(store), **bounds) == ("ok", "errored")
    retry(store)
    assert fail_round(store, claim(store), **bounds) == ("ok", "waiting")


def test_a_fatal_failure_ends_the_run_at_once(store: Store) -> None:
    new_run(store)
    assert fail_round(store, claim(store), fatal=1) == ("ok", "errored")
    assert due(store) is None


def test_a_commit_resets_the_bounds(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store))
    sweep_after(store, 1_000)
    claim(store)
    sweep_after(store, LEASE)
    granted = claim(store)
    assert (granted.fields["failures"], granted.fields["losses"]) == ("1", "1")
    commit_next(store, granted)
    fields = hash_of(store)
    assert (fields["failures"], fields["losses"], fields["attempt"]) == ("0", "0", "0")
    assert "last_error" not in fields


def test_after_a_commit_a_run_is_due_at_its_deadline_where_that_is_sooner(store: Store) -> None:
    new_run(store, deadline=500)
    commit_next(store, claim(store))
    assert due(store) == START + 500


def test_after_a_commit_a_run_is_due_in_a_grace_where_its_deadline_is_later(store: Store) -> None:
    new_run(store, deadline=GRACE + 1)
    commit_next(store, claim(store))
    assert due(store) == START + GRACE


def test_failures_and_losses_are_bounded_apart(store: Store) -> None:
    new_run(store)
    for _ in range(2):
        fail_round(store, claim(store), max_failures=3, delay=0)
        sweep_after(store, 1)
    for _ in range(3):
        claim(store)
        sweep_after(store, LEASE, max_losses=3, loss_delay=1)
        sweep_after(store, 10)
    assert phase(store) == "queued", "2 failures and 3 losses are within bounds of 3 each"


def test_giving_back_counts_nothing_and_queues_the_same_round_at_the_consuming_end(
    store: Store,
) -> None:
    new_run(store, "r")
    new_run(store, "behind")
    granted = claim(store)
    before = hash_of(store)
    assert commit(store, granted, "give_back") == ("ok", "queued")
    fields = hash_of(store)
    kept = ("step", "epoch", "failures", "losses", "number", "attempt")
    assert {name: fields[name] for name in kept} == {name: before[name] for name in kept}
    assert messages(store) == ["r/0/0", "behind/0/0"]
    assert "owner" not in fields and due(store) == START + GRACE


def test_a_damaged_run_is_quarantined_and_never_swept(store: Store) -> None:
    new_run(store)
    assert commit(store, claim(store), "damaged", error="its digest does not match") == (
        "ok",
        "errored",
    )
    fields = hash_of(store)
    assert (fields["quarantined"], fields["error"], fields["phase"]) == (
        "1",
        "its digest does not match",
        "errored",
    )
    assert sweep_after(store, 100 * LEASE) == [] and messages(store) == []


@pytest.mark.parametrize(
    "kind", ["next", "pause_next", "pause_here", "failed", "give_back", "damaged"]
)
def test_a_stop_asked_meanwhile_beats_every_outcome_but_end(store: Store, kind: str) -> None:
    new_run(store)
    granted = claim(store)
    assert stop(store)[0] == "asked"
    assert settle(store, granted, kind) == ("ok", "stopped")
    fields = hash_of(store)
    assert (fields["phase"], fields["stop_current_execution"]) == ("stopped", "stopped")
    assert (fields["status"], fields["interrupt_reason"]) == ("interrupted_after", "stop_requested")
    assert due(store) is None and messages(store) == [] == messages(store, "executor")
    assert [event["type"] for event in events(store)][-1] == "stopped"
    assert_lawful(store)


def test_an_end_beats_a_stop_asked_meanwhile(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    assert stop(store)[0] == "asked"
    assert commit_end(store, granted) == ("ok", "completed")
    assert hash_of(store)["stop_current_execution"] == "none"
    assert stop(store, op="stop-2")[:2] == ["finished", "completed"]


def test_the_result_of_the_round_that_a_graceful_stop_met_is_kept(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    stop(store)
    commit_next(store, granted, additions=("turn",))
    fields = hash_of(store)
    assert (
        fields["step"],
        fields["current_node"],
        fields["interrupted_node"],
        fields["in_doubt"],
    ) == ("1", "Executor", "Controller", "")
    assert store.reads.memory("r") == ["turn"]


@pytest.mark.parametrize("kind", ["pause_here", "failed", "give_back", "damaged"])
def test_a_round_that_a_stop_met_and_that_was_not_done_is_in_doubt(store: Store, kind: str) -> None:
    new_run(store)
    granted = claim(store)
    stop(store)
    settle(store, granted, kind)
    assert hash_of(store)["in_doubt"] == "0/Controller/1" == events(store)[-1]["in_doubt"]


def test_an_attempt_that_did_nothing_which_may_not_be_repeated_is_not_in_doubt_after_a_stop(
    store: Store,
) -> None:
    new_run(store)
    granted = claim(store)
    stop(store)
    assert commit(store, granted, "give_back", harmless=1) == ("ok", "stopped")
    assert hash_of(store)["in_doubt"] == "" == events(store)[-1]["in_doubt"]


def test_a_stop_keeps_the_interrupt_that_the_round_opened(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    stop(store)
    assert pause_next(store, granted) == ("ok", "stopped")
    assert hash_of(store)["i_id"] == "0:1"
    assert resume(store) == ["interrupted"]


def test_the_late_commit_of_the_held_token_is_fenced_and_lifts_the_hold(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    stop(store, "now")
    assert commit_next(store, granted) == ("fenced", "")
    fields = hash_of(store)
    assert "held_token" not in fields and (fields["phase"], fields["step"]) == ("stopped", "0")
    before = everything(store)
    assert commit_next(store, granted) == ("fenced", "")
    assert everything(store) == before


def test_an_ending_sets_one_absolute_expiry_on_all_keys_of_the_run(store: Store) -> None:
    new_run(store, idempotency_key="k", content="c")
    commit_end(store, claim(store), ("turn",))
    keys = [
        store.keys.run("r"),
        store.keys.memory("r"),
        store.keys.events("r"),
        store.keys.idempotency("k"),
    ]
    assert [store.redis.pexpiretime(key) for key in keys] == [START + RETENTION] * 4


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize(
    "kind", ["next", "end", "pause_next", "pause_here", "failed", "give_back", "damaged"]
)
def test_the_fields_of_a_round_are_written_whatever_it_came_to_and_whoever_stopped_it(
    store: Store, kind: str, stopping: bool
) -> None:
    """A round's spending counts, also if it failed or a stop beat it."""
    new_run(store, fields={"spent": "{}"})
    granted = claim(store)
    if stopping:
        stop(store)
    fields = {"spent": '{"tokens":7}', "settled": "1", "digest": "d"}
    named = (
        {"error": "boom", "delay": 1_000, "max_failures": 3}
        if kind in ("failed", "damaged")
        else {}
    )
    assert (
        commit(store, granted, kind, fields={**pause_at("Executor", "before"), **fields}, **named)[
            0
        ]
        == "ok"
    )
    assert {name: hash_of(store)[name] for name in fields} == fields


def test_the_fields_of_a_fenced_round_are_not_written(store: Store) -> None:
    new_run(store)
    zombie = claim(store)
    sweep_after(store, LEASE)
    assert commit(store, zombie, "give_back", fields={"spent": "9"})[0] == "fenced"
    assert "spent" not in hash_of(store)


def test_more_additions_and_values_than_luas_stack_holds_are_all_kept(store: Store) -> None:
    new_run(store)
    values = {f"v:{number}": str(number) for number in range(9_000)}
    additions = tuple(f"turn {number}" for number in range(9_000))
    assert commit_next(store, claim(store), "Executor", additions, **values) == ("ok", "continued")
    assert store.reads.memory("r") == list(additions)
    assert {name: text for name, text in hash_of(store).items() if name.startswith("v:")} == values


def test_a_queue_that_is_no_list_of_the_broker_is_refused_before_any_write(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    before = everything(store)
    assert commit_next(store, granted, queue="elsewhere") == ("unknown_queue", "elsewhere")
    assert everything(store) == before


def test_every_message_delivered_five_times_out_of_order_leaves_the_log_exact(store: Store) -> None:
    new_run(store)
    seen = []
    for step in range(6):
        role = "controller" if step % 2 == 0 else "executor"
        seen.append((0, step))
        assert take(store, role) == f"r/0/{step}"
        granted = [
            claimed
            for claimed in (try_claim(store, epoch=0, step=step, owner=f"w{n}") for n in range(5))
            if isinstance(claimed, Claim)
        ]
        assert len(granted) == 1
        commit_next(store, granted[0], "Executor" if step % 2 == 0 else "Controller")
        for epoch, old in reversed(seen):
            assert not isinstance(try_claim(store, epoch=epoch, step=old), Claim)
    assert at(store) == (0, 6)
    assert_lawful(store)


def settle(store: Store, granted: Claim, kind: str) -> tuple[str, str]:
    """Commit in any way."""
    calls: dict[str, Callable[[], tuple[str, str]]] = {
        "next": lambda: commit_next(store, granted),
        "end": lambda: commit_end(store, granted),
        "pause_next": lambda: pause_next(store, granted),
        "pause_here": lambda: pause_here(store, granted),
        "failed": lambda: fail_round(store, granted),
        "give_back": lambda: commit(store, granted, "give_back"),
        "damaged": lambda: commit(store, granted, "damaged", error="bad"),
    }
    return calls[kind]()


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ("digest a b", {"before": "digest", "v:a": "1", "v:b": '"two"'}),
        ("digest a !big !odd", {"before": "digest", "left_out": "big odd", "v:a": "1"}),
        ("- b", {"values": "{}", "v:b": '"two"'}),
    ],
)
def test_a_rounds_event_has_the_values_that_it_changed(
    store: Store, record: str, expected: dict[str, str]
) -> None:
    """After the digest of all values before it, and the names of the values left out."""
    new_run(store)
    changed = {"v:a": "1", "v:b": '"two"', "v:big": "3", "v:c": "4"}
    assert commit_next(store, claim(store), options={"record": record}, **changed)[0] == "ok"
    [event] = events(store, kind="committed")
    other = {"type": "committed", "step": "0", "attempt": "1", "node": "Controller", "took": ""}
    assert {name: event[name] for name in event if name != "at"} == {**other, **expected}


def test_a_rounds_time_and_an_interrupts_details_are_logged(store: Store) -> None:
    new_run(store)
    commit(store, claim(store), "next", message="r/0/1", took=12)
    assert events(store, kind="committed")[0]["took"] == "12"
    pause_here(store, claim(store))
    [event] = events(store, kind="interrupted")
    assert event["interrupt"] == hash_of(store)["i_id"] == "0:1"
    assert (event["reason"], event["data"]) == ("may I?", "null")


def test_progress_ends_with_its_lease(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.rounds.extend([("r", granted.token, "half")])
    assert hash_of(store)["progress"] == "half"
    fail_round(store, granted)
    assert "progress" not in hash_of(store)


def test_a_failure_is_told_with_its_wait_and_each_traceback_once(store: Store) -> None:
    new_run(store)
    for traceback in ("one", "one", "two", None):
        options = {} if traceback is None else {"traceback": traceback}
        fail_round(store, claim(store), max_failures=9, **options)
        assert hash_of(store).get("traceback") == traceback
        sweep_after(store, 1_000)
    told = [
        (event["error"], event["retry_in"], event.get("traceback"))
        for event in events(store, kind="failed")
    ]
    assert told == [("boom", "1000", each) for each in ("one", None, "two", None)]


def test_a_wait_for_a_provider_is_counted(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store), uncounted=1, within=86_400_000)
    assert store.redis.hget(store.keys.queues, "moves:provider_waits:ring") == "1"


def test_a_wait_for_code_counts_no_failure_and_has_a_clock_of_its_own(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store), uncounted=1, within=5_000)
    sweep_after(store, 4_000)
    for waits, answer in (("1", "waiting"), ("2", "errored")):
        granted = claim(store)
        bounds = {"uncounted": 1, "reason": "code", "within": 2_000, "spent": "for too long"}
        assert fail_round(store, granted, **bounds) == ("ok", answer), waits
        found = hash_of(store)
        assert (found["failures"], found["misfit"].split()[-1]) == ("0", waits)
        if answer == "waiting":
            assert found["waiting_for"] == "code"
            sweep_after(store, 2_000)
    assert hash_of(store)["last_error"] == "boom" and hash_of(store)["error"] == "for too long"
    assert store.redis.hget(store.keys.queues, "moves:code_waits:ring") == "1"
    [told] = [event for event in events(store, kind="waits") if "for" in event]
    assert told["for"] == "code"


def test_a_round_that_is_released_is_told(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    commit(store, granted, "give_back")
    assert [event["token"] for event in events(store, kind="given_back")] == [granted.token]


def test_the_message_of_a_round_behind_a_pause_is_stored_with_the_pause(store: Store) -> None:
    new_run(store)
    pause_next(store, claim(store), i_wait="1000", i_default="1")
    assert hash_of(store)["message"] == message("r", 1, 1)
