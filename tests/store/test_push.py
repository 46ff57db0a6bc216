"""push: the first of a round goes to the end of the line; again goes to its front, under the same
number.
"""

from __future__ import annotations

from perdure.worker.store import Store
from tests.support.runs import (
    GRACE,
    LEASE,
    claim,
    commit,
    commit_next,
    fail_round,
    hash_of,
    messages,
    new_run,
    pause_here,
    resume,
    stop,
    sweep_after,
    take,
)


def test_each_first_push_takes_the_lists_next_number_and_the_end_of_the_line(store: Store) -> None:
    for run_id in ("a", "b", "c"):
        new_run(store, run_id)
    assert [hash_of(store, run_id)["number"] for run_id in ("a", "b", "c")] == ["1", "2", "3"]
    assert messages(store) == ["a/0/0", "b/0/0", "c/0/0"]


def test_lists_count_apart(store: Store) -> None:
    new_run(store, "a")
    new_run(store, "b", role="executor")
    assert (hash_of(store, "a")["number"], hash_of(store, "b")["number"]) == ("1", "1")
    commit_next(store, claim(store, "a"))
    assert hash_of(store, "a")["number"] == "2"
    commit_next(store, claim(store, "a"))
    assert hash_of(store, "a")["number"] == "3"


def test_a_recovered_run_does_not_wait_through_the_backlog(store: Store) -> None:
    for run_id in ("r", "b", "c"):
        new_run(store, run_id)
    claim(store)
    assert ("r", "freed") in sweep_after(store, LEASE)
    assert messages(store) == ["r/0/0", "b/0/0", "c/0/0"]
    assert hash_of(store)["number"] == "1"


def test_a_resent_message_keeps_its_number(store: Store) -> None:
    new_run(store)
    take(store)
    sweep_after(store, GRACE)
    sweep_after(store, GRACE)
    assert (hash_of(store)["number"], messages(store)) == ("1", ["r/0/0"])
    assert store.redis.hget(store.keys.queues, f"{store.keys.queue('controller')}:pushed") == "1"


def test_a_retried_round_comes_back_at_the_front(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store), delay=100)
    new_run(store, "b")
    sweep_after(store, 100)
    assert messages(store) == ["r/0/0", "b/0/0"]


def test_a_round_given_back_comes_back_at_the_front(store: Store) -> None:
    new_run(store)
    new_run(store, "b")
    commit(store, claim(store), "give_back")
    assert messages(store) == ["r/0/0", "b/0/0"]


def test_the_next_step_and_the_next_epoch_join_the_end_of_the_line(store: Store) -> None:
    new_run(store)
    new_run(store, "b", role="executor")
    commit_next(store, claim(store))
    assert messages(store, "executor") == ["b/0/0", "r/0/1"]
    new_run(store, "c", role="executor")
    stop(store)
    resume(store)
    assert messages(store, "executor") == ["b/0/0", "r/0/1", "c/0/0", "r/1/1"]


def test_commit_and_the_message_for_the_next_step_are_one_effect(store: Store) -> None:
    """A refused commit pushes nothing; an accepted one pushes exactly one message."""
    new_run(store)
    granted = claim(store)
    commit_next(store, granted)
    commit_next(store, granted)
    assert messages(store, "executor") == ["r/0/1"]
    assert store.rounds.commit("r", epoch=0, step=0, token="9", kind="next", message="forged") == (
        "fenced",
        "",
    )
    assert messages(store, "executor") == ["r/0/1"]


def test_the_hash_names_task_and_queue_so_that_anybody_can_resume(store: Store) -> None:
    new_run(store)
    commit_next(store, claim(store))
    fields = hash_of(store)
    assert (fields["task"], fields["queue"]) == (
        "perdure.executor_round",
        store.keys.queue("executor"),
    )


def test_the_step_after_an_answer_joins_the_end_of_the_line(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store))
    resume(store, answer="1")
    granted = claim(store)
    new_run(store, "b")
    commit_next(store, granted, "Controller")
    assert messages(store) == ["b/0/0", "r/1/1"]
