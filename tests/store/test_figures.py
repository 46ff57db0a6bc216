"""What workers add up of their rounds: written once, kept while the server is away, and never at anything's expense."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.store import Store
from tests.support.roles import locked_server


def written(store: Store) -> dict[tuple[str, ...], str]:
    found: Any = store.redis.hgetall(store.keys.metrics)
    return {tuple(json.loads(name)): text for name, text in found.items()}


def test_rounds_are_added_up_and_written_once(store: Store) -> None:
    figures = RoundStats()
    for took in (10, 11, 4_000_000):
        figures.round("ring", "Controller", "continued", took)
    figures.waited("controller", 7)
    figures.spent("ring", {"tokens": 3, "money": 0.5, "commands.wait": 1, "own": 9})
    for _ in range(2):
        figures.flush(store)
    assert written(store) == {
        ("rounds", "ring", "Controller", "continued"): "3",
        ("took", "ring", "Controller", "0.01"): "1",
        ("took", "ring", "Controller", "0.05"): "1",
        ("took", "ring", "Controller", "+Inf"): "1",
        ("took_ms", "ring", "Controller"): "4000021",
        ("waited", "controller", "0.01"): "1",
        ("waited_ms", "controller"): "7",
        ("spent", "ring", "tokens"): "3",
        ("spent", "ring", "money"): "0.5",
    }


def test_figures_are_kept_while_the_server_is_away(store: Store, tmp_path: Path) -> None:
    figures = RoundStats()
    figures.waited("controller", 7)
    away = Store(f"unix://{tmp_path}/nobody", timeout=0.2, resends=0)
    figures.flush(away)
    figures.waited("controller", 8)
    figures.flush(store)
    assert written(store)["waited_ms", "controller"] == "15"
    away.close()


def test_a_damaged_figure_stays_as_it_is_and_the_others_are_written(store: Store) -> None:
    store.redis.hset(store.keys.metrics, json.dumps(["waited_ms", "controller"]), "x")
    figures = RoundStats()
    figures.waited("controller", 7)
    figures.flush(store)
    assert written(store) == {
        ("waited_ms", "controller"): "x",
        ("waited", "controller", "0.01"): "1",
    }


def test_a_worker_whose_rights_are_older_than_the_figures_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with locked_server("valkey") as locked:
        with locked.login("operator") as operator:
            operator.execute_command("ACL", "SETUSER", "worker", "clearselectors")
        store = Store(locked.url("worker"))
        figures = RoundStats()
        for _ in range(2):
            figures.waited("controller", 7)
            figures.flush(store)
        store.close()
    assert [
        record.message.startswith("figures of rounds are lost") for record in caplog.records
    ] == [True]


def test_a_child_does_not_write_what_its_parent_has_added_up(store: Store) -> None:
    figures = RoundStats()
    figures.waited("controller", 7)
    figures._pid = os.getppid()  # as after a fork
    figures.flush(store)
    assert written(store) == {}
