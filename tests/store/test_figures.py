"""Workers' sums over their rounds: written once, kept while the server is away, and never at a
run's expense.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from perdure.worker.domain.chart_spans import PARTS, SPANS, part_ms
from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.features.metric_history.records import key as key_of_part
from perdure.worker.features.metric_history.records import read_history
from perdure.worker.store import Store
from tests.support.acl_server import locked_server


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


def test_the_parts_of_a_span_hold_what_was_written_in_their_time_and_expire(store: Store) -> None:
    figures, begin = RoundStats(), store.now or 0
    for hours, tokens in ((0, 1), (23, 2), (23, 4), (100, 8)):
        store.now = begin + hours * 3_600_000
        figures.round("ring", "Controller", "continued", 500)
        figures.waited("executor", 7)
        figures.spent("ring", {"tokens": tokens, "money": 0.5, "requests": 1})
        figures.flush(store)
    spent = {span: read_history(store, span).of("tokens") for span in SPANS}
    assert {span: [sum(of), len(of)] for span, of in ((s, spent[s]["ring"]) for s in SPANS)} == {
        "hour": [8, 48],
        "day": [8, 48],
        "week": [15, 48],
    }
    week = read_history(store, "week")
    assert week.parts[-1] == {
        ("rounds", "ring"): 1,
        ("took_ms", "ring"): 500,
        ("waits", "executor"): 1,
        ("waited_ms", "executor"): 7,
        ("tokens", "ring"): 8,
        ("money", "ring"): 0.5,
    }
    assert week.begins[-1] <= store.now < week.begins[-1] + part_ms("week")
    assert sum(week.of("rounds")["ring"]) == 4 and week.of("nothing") == {}
    keys = list(store.redis.scan_iter(f"{store.keys.metrics}:*"))
    assert len(keys) == 9
    for key in keys:
        length = (PARTS + 1) * part_ms(str(key).split(":")[-2])
        assert length - 60_000 < store.redis.pttl(key) <= length


def test_a_damaged_part_of_the_history_shows_what_is_whole(store: Store) -> None:
    figures = RoundStats()
    figures.spent("ring", {"tokens": 3, "money": 0.5})
    figures.flush(store)
    key = key_of_part(store.keys, "hour", (store.now or 0) // part_ms("hour"))
    wrong = {"x": "1", '["tokens"]': "1", '["tokens", 1]': "1", '["money", "ring"]': "inf"}
    store.redis.hset(key, mapping=wrong)
    assert read_history(store, "hour").parts[-1] == {("tokens", "ring"): 3}


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
