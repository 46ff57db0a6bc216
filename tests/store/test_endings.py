"""Ends that a person looks at first, and ends that are none: runs that used up their cycles."""

from __future__ import annotations

from perdure.worker.store import Store
from tests.support.runs import (
    advance,
    assert_lawful,
    claim,
    clock,
    commit_end,
    commit_unfinished,
    everything,
    hash_of,
    indexes,
    later,
    messages,
    new_run,
    pause_end,
    phase,
    resume,
    retry,
    stop,
    submit,
    sweep,
)

MORE = {"answer": "null", "more": True}


def unfinished(store: Store) -> None:
    """Make a run that has used up its cycles."""
    new_run(store)
    assert commit_unfinished(store, claim(store)) == ("ok", "completed")


def test_a_run_that_used_up_its_cycles_goes_on_in_a_new_epoch_when_it_is_given_more(
    store: Store,
) -> None:
    submit(store, idempotency_key="k", content="c")
    assert commit_unfinished(store, claim(store)) == ("ok", "completed")
    keys = [
        store.keys.run("r"),
        store.keys.memory("r"),
        store.keys.events("r"),
        store.keys.idempotency("k"),
    ]
    assert all(store.redis.pttl(key) > 0 for key in keys)
    assert resume(store, fields={"max_rounds": "9"}, idempotency_key="k", **MORE) == ["queued"]
    assert [store.redis.pttl(key) for key in keys] == [-1] * 4
    fields = hash_of(store)
    assert (fields["epoch"], fields["step"], fields["current_node"], fields["max_rounds"]) == (
        "1",
        "1",
        "Controller",
        "9",
    )
    assert not {"unfinished", "ending", "answer", "output", "ended_at"} & set(fields)
    assert messages(store) == ["r/1/1"] and indexes(store) == ["live"]
    assert_lawful(store)
    assert commit_end(store, claim(store)) == ("ok", "completed")
    assert_lawful(store)


def test_a_run_that_used_up_its_cycles_is_counted_and_told(store: Store) -> None:
    unfinished(store)
    assert store.redis.hget(store.keys.queues, "moves:unfinished:ring") == "1"
    assert [
        entry["unfinished"] for _, entry in store.events.read("r") if entry["type"] == "completed"
    ] == ["3"]


def test_only_a_run_that_used_up_its_cycles_is_given_more(store: Store) -> None:
    new_run(store)
    assert commit_end(store, claim(store)) == ("ok", "completed")
    before = {name: text for name, text in hash_of(store).items() if name != "ops"}
    assert resume(store, **MORE) == ["stale"]
    assert {name: text for name, text in hash_of(store).items() if name != "ops"} == before


def test_an_unfinished_run_is_not_resumed_without_more(store: Store) -> None:
    unfinished(store)
    assert resume(store) == ["finished", "completed"] and phase(store) == "completed"


def test_a_deadline_that_has_passed_does_not_end_a_run_that_is_given_more(store: Store) -> None:
    submit(store, deadline=5_000)
    commit_unfinished(store, claim(store))
    later(store, 6_000)
    assert resume(store, **MORE) == ["queued"] and "deadline" not in hash_of(store)


def test_a_run_that_paused_at_its_end_completes_when_it_is_resumed(store: Store) -> None:
    new_run(store)
    assert pause_end(store, claim(store)) == ("ok", "interrupted")
    assert_lawful(store)
    advance(store, 1_000)
    assert resume(store, idempotency_key=None) == ["completed"]
    fields = hash_of(store)
    assert (fields["epoch"], fields["step"], fields["status"], fields["answer"]) == (
        "1",
        "1",
        "completed",
        '"42"',
    )
    assert not {"ending", "i_id", "i_answer", "interrupt_reason", "interrupted_node"} & set(fields)
    assert (fields["idle"], fields["ended_at"]) == ("1000", str(clock(store))) and messages(
        store
    ) == []
    assert store.redis.pttl(store.keys.run("r")) > 0
    assert_lawful(store)


def test_a_resume_that_completed_a_run_is_answered_the_same_when_it_is_sent_again(
    store: Store,
) -> None:
    new_run(store)
    pause_end(store, claim(store))
    seen = hash_of(store)
    assert resume(store, op="a", interrupt=seen["i_id"], epoch=0) == ["completed"]
    before = everything(store)
    assert resume(store, op="a", interrupt=seen["i_id"], epoch=0) == ["completed"]
    assert resume(store, op="b", interrupt=seen["i_id"], epoch=0) == ["stale"]
    assert everything(store) == before


def test_a_run_that_was_stopped_or_overdue_at_its_end_asks_again(store: Store) -> None:
    submit(store, deadline=5_000)
    pause_end(store, claim(store))
    stop(store)
    assert resume(store) == ["interrupted"]
    later(store, 6_000)
    assert sweep(store) == [("r", "errored")]
    assert retry(store) == ["interrupted"]
    assert resume(store, op="last") == ["completed"] and hash_of(store)["answer"] == '"42"'


def test_a_run_that_paused_at_its_last_cycle_ends_unfinished_or_is_given_more(store: Store) -> None:
    for run_id, options, word in (("ends", {}, "completed"), ("goes-on", MORE, "queued")):
        new_run(store, run_id)
        assert pause_end(store, claim(store, run_id), "Controller") == ("ok", "interrupted")
        assert resume(store, run_id=run_id, **options) == [word]
        assert ("unfinished" in hash_of(store, run_id), "answer" in hash_of(store, run_id)) == (
            word == "completed",
        ) * 2
        assert "ending" not in hash_of(store, run_id) and "i_id" not in hash_of(store, run_id)
        assert_lawful(store, run_id)
