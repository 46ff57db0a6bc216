"""A waiting run is left alone, and looked at as soon as the queue has gone past it, after any wait."""

from __future__ import annotations

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    GRACE,
    claim,
    commit_end,
    due,
    due_in,
    events,
    messages,
    new_run,
    sweep,
    sweep_after,
    take,
)

WAITED = 60_000


def line(store: Store) -> list[str]:
    """Return the runs seen in the queue, in order."""
    return list(store.redis.zrange(store.keys.line(store.keys.queue("controller")), 0, -1))


def lose_the_message_of(store: Store, run_id: str) -> None:
    assert store.redis.lrem(store.keys.queue("controller"), 1, f"{run_id}/0/0") == 1


@pytest.fixture
def lost(store: Store) -> str:
    """A run that has long been in line between two others, and then loses its message."""
    for run_id in ("first", "lost", "last"):
        new_run(store, run_id)
    sweep_after(store, WAITED)
    assert line(store) == ["first", "lost", "last"]
    lose_the_message_of(store, "lost")
    return "lost"


def test_a_run_that_its_line_has_passed_is_found_within_two_graces(store: Store, lost: str) -> None:
    claim(store, "first")
    assert due_in(store, lost) == WAITED and sweep(store) == [], "the line has not passed it"
    claim(store, "last")
    assert sweep(store) == [(lost, "marked")]
    assert sweep_after(store, GRACE) == [(lost, "resent")]
    assert messages(store) == [f"{lost}/0/0"]


def test_a_run_at_the_tail_of_a_line_that_has_run_out_is_found_within_two_graces(
    store: Store, lost: str
) -> None:
    claim(store, "first")
    lose_the_message_of(store, "last")
    assert sorted(sweep(store)) == [("last", "marked"), (lost, "marked")]
    assert sorted(sweep_after(store, GRACE)) == [("last", "resent"), (lost, "resent")]


def test_a_run_that_left_its_line_in_good_order_is_not_looked_at_for_it(
    store: Store, lost: str
) -> None:
    for run_id in ("first", "last"):
        claim(store, run_id)
    take(store)
    assert sweep(store) == [(lost, "marked")]
    assert line(store) == []


def test_a_run_that_was_queued_anew_is_not_taken_for_the_one_that_was_passed(store: Store) -> None:
    """Its entry in the line is by the number of a message that is gone."""
    for run_id in ("a", "b", "c"):
        new_run(store, run_id)
    sweep_after(store, WAITED)
    for run_id in ("a", "b"):
        claim(store, run_id)
    store.redis.hset(store.keys.run("b"), mapping={"phase": "queued", "number": "4"})
    before = due(store, "b")
    assert [word for run_id, word in sweep(store) if run_id == "b"] == []
    assert due(store, "b") == before


def test_a_run_that_was_claimed_is_not_due_for_having_left_its_line(store: Store) -> None:
    for run_id in ("first", "second"):
        new_run(store, run_id)
    sweep_after(store, WAITED)
    for run_id in ("first", "second"):
        claim(store, run_id)
    before = {run_id: due(store, run_id) for run_id in ("first", "second")}
    assert sweep(store) == [] and line(store) == []
    assert {run_id: due(store, run_id) for run_id in before} == before


def test_a_run_that_is_gone_leaves_its_line(store: Store, lost: str) -> None:
    claim(store, "first")
    claim(store, "last")
    store.redis.delete(store.keys.run(lost))
    store.redis.zrem(store.keys.due, lost)
    assert sweep(store) == [] and line(store) == []


def test_the_longest_line_that_has_been_passed_is_left_in_a_few_sweeps(
    store: Store, lost: str
) -> None:
    """No run shall wait for it: one sweep takes some, the next ones the rest."""
    claim(store, "first")
    claim(store, "last")
    store.redis.zadd(
        store.keys.line(store.keys.queue("controller")),
        {f"gone{place:04}": 1 for place in range(2400)},
    )
    assert sweep(store) == [] and 0 < len(line(store)) < 2400
    looked = [word for _ in range(3) for word in sweep(store)]
    assert line(store) == [] and looked == [(lost, "marked")]


def test_a_message_pushed_again_is_looked_for_every_grace_and_never_doubled(
    store: Store, lost: str
) -> None:
    """It stands at the consuming end, where its number says nothing; no worker takes it for a long
    time.
    """
    for run_id in ("first", "last"):
        commit_end(store, claim(store, run_id))
    sweep(store)
    sweep_after(store, GRACE)
    for _ in range(20):
        assert sweep_after(store, GRACE) == [(lost, "in_line")]
    assert messages(store) == [f"{lost}/0/0"] and len(events(store, lost, "resent")) == 1
