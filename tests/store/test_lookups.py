"""Runs are looked at together, and a run that moves during the look is read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.store import Store, lookups
from tests.support.runs import new_run, stop


def during_the_first_look(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[int]:
    """Patch the first look so that something happens between its two reads of a run.

    Return the looks.
    """
    read, looks = lookups._read, []

    def moved(*args: Any) -> Any:
        found = read(*args)
        looks.append(len(found))
        if len(looks) > 1:
            return found
        act()
        return {run_id: (snapshot, run_id == "moves") for run_id, (snapshot, _) in found.items()}

    monkeypatch.setattr(lookups, "_read", moved)
    return looks


def test_a_run_that_moved_is_read_again_and_the_others_are_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id in ("stays", "moves"):
        new_run(store, run_id)
    looks = during_the_first_look(monkeypatch, lambda: stop(store, "now", run_id="moves"))
    found = lookups.look_at_all(store, ["moves", "none", "stays"])
    assert {run_id: each.fields["phase"] for run_id, each in found.items()} == {
        "moves": "stopped", "stays": "queued",
    }  # fmt: skip
    assert looks == [2, 1]


def test_a_run_that_was_deleted_during_the_look_is_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id in ("stays", "moves"):
        new_run(store, run_id)
    stop(store, "now", run_id="moves")

    def delete() -> None:
        store.redis.delete(store.keys.run("moves"))

    during_the_first_look(monkeypatch, delete)
    assert list(lookups.look_at_all(store, ["moves", "stays"])) == ["stays"]
    store.redis.zrem(store.keys.index("stopped"), "moves")
