"""Families of three generations, and runs of two groups: the findings of their model
(docs/internals/model.md).
"""

from __future__ import annotations

import pytest

from perdure.worker.store import Claim, Store
from tests.support.child_runs import (
    ALL,
    GROUP,
    SETTLED,
    child_id,
    end_child,
    end_of,
    family,
    group_of,
    last_word,
    park_on_children,
    phases,
    reconcile,
    start_children,
)
from tests.support.runs import (
    claim,
    commit_next,
    hash_of,
    new_run,
    phase,
    resume,
    stop,
)


def claim_after(store: Store, *children: str) -> Claim:
    """End the children well; return their parent's claim."""
    for child in children:
        end_child(store, child)
    return claim(store)


#: Of one child: until it has ended.
ONE = (2, 2, 1)


def generations(store: Store) -> tuple[str, str]:
    """Make a root that waits for its child, which waits for its own; return the ids of both."""
    new_run(store)
    park_on_children(store, claim(store), ONE, total=1)
    start_children(store)
    middle = child_id(store, 0)
    park_on_children(store, claim(store, middle), ONE, total=1)
    start_children(store, run_id=middle)
    for run_id in ("r", middle):
        assert last_word(store, run_id) == "done"
    return middle, child_id(store, 0, run_id=middle)


def test_the_children_of_a_run_that_was_stopped_alone_go_on_below_a_stopped_tree(
    store: Store,
) -> None:
    middle, leaf = generations(store)
    store.runs.request_stop(middle, op="alone", mode="graceful", only=True)
    stop(store)
    reconcile(store)
    assert phases(store, "r", middle, leaf) == ["stopped", "stopped", "queued"]
    stop(store, run_id=middle)
    reconcile(store, middle)
    assert phase(store, leaf) == "stopped"


@pytest.mark.parametrize("mode", ["graceful", "now"])
def test_a_person_s_stop_of_a_child_that_stops_with_its_tree_is_its_own(
    store: Store, mode: str
) -> None:
    middle, _ = family(store, SETTLED)
    granted = claim(store, middle)
    stop(store)
    reconcile(store)
    assert hash_of(store, middle)["stop_tree"] == "1"
    assert resume(store)[0] == "queued"
    assert stop(store, mode, run_id=middle)[0] == ("asked" if mode == "graceful" else "stopped")
    assert commit_next(store, granted)[0] == ("ok" if mode == "graceful" else "fenced")
    assert hash_of(store, middle)["stop_by"] == "ann"
    reconcile(store)
    assert phase(store, middle) == "stopped", "a person stopped it, and it went on"
    assert end_of(store, 0) == "bad stopped 1\nenough"


def test_such_a_stop_has_no_name_if_it_was_asked_without_one(store: Store) -> None:
    middle, _ = family(store, SETTLED)
    granted = claim(store, middle)
    stop(store)
    reconcile(store)
    assert hash_of(store, middle)["stop_by"] == "parent r"
    store.runs.request_stop(middle, op="no name", mode="graceful")
    assert "stop_by" not in hash_of(store, middle)
    assert commit_next(store, granted) == ("ok", "stopped")
    assert end_of(store, 0) == "bad stopped 1\n"


def test_a_child_that_a_person_continued_is_stopped_with_a_parent_that_went_on_since(
    store: Store,
) -> None:
    first, second = family(store, SETTLED)
    stop(store)
    reconcile(store)
    resume(store, run_id=first)
    assert phases(store, first, second) == ["queued", "stopped"]
    resume(store)
    stop(store, op="again")
    reconcile(store)
    assert phases(store, first, second) == ["stopped", "stopped"]


def test_a_child_that_a_person_continued_goes_on_below_a_dropped_group(store: Store) -> None:
    first, second = family(store, (1, 2, 3))
    end_child(store, first)
    commit_next(store, claim(store), options={"take": ""})
    assert group_of(store)["dropped"] == "1"
    stop(store, run_id=second)
    resume(store, run_id=second)
    stop(store)
    resume(store, op="2")
    reconcile(store)
    assert phase(store, second) == "queued"


def test_a_walk_goes_on_behind_a_group_that_is_there_no_more(store: Store) -> None:
    first, second = family(store, ALL, kept=1)
    park_on_children(store, claim_after(store, first, second), ONE, total=1, name="1", kept=1)
    start_children(store, group="0.1")
    other = child_id(store, 0, group="0.1")
    stop(store)
    reconcile(store)
    assert phase(store, other) == "stopped"
    resume(store)
    step = store.family.reconcile("r", most=1)
    assert (step.word, step.start) == ("more", f"{GROUP} 1")
    commit_next(store, claim(store, epoch=1), options={"take": "", "joined": GROUP})
    assert hash_of(store)["groups"] == "0.1"
    reconcile(store, walk=step.walk, start=step.start)
    assert phase(store, other) == "waiting", "its walk is over, and it was not continued"
