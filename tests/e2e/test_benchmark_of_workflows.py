"""The benchmark of workflows runs: a short pass of orders, a real kill, and the costs of a step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.orders.lines import count_lines, lines_of_module
from benchmarks.orders.sides import BASE, order_sides
from benchmarks.sides.restate import missing_parts
from benchmarks.workflows_cost import BYTES, GROWTH_AIM, QUICK_DEPTHS, REPLAYED

ROOT = Path(__file__).parents[2]


def measured(into: Path, *only: str) -> tuple[dict[str, float], dict[str, Any]]:
    """Run the benchmark; return the medians by name, and all that is stored."""
    command = [sys.executable, "-m", "benchmarks", "workflows", "--quick", "--into", str(into)]
    command += [part for name in only for part in ("--only", name)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    stored = json.loads((into / "workflows.json").read_text())
    return {measure["name"]: measure["median"] for measure in stored["measures"]}, stored


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_orders_are_played_and_a_killed_step_is_asked_about_or_repeated(tmp_path: Path) -> None:
    ours, repeated = "Perdure", "Perdure, idempotent steps"
    found, stored = measured(tmp_path, ours, repeated)
    for side in (ours, repeated):
        assert found[f"steps: {side}"] > 0 and found[f"latency of a step, p50: {side}"] > 0
    assert found[f"effects of the killed step: {ours}"] == 1
    assert found[f"effects of the killed step: {repeated}"] == 2
    fates = stored["settings"]["killed"]
    assert fates[ours] == ["asked a person (1 x charge, 1 x ship, 1 x mail)"]
    assert fates[repeated] == ["repeated without being asked (1 x charge, 2 x ship, 1 x mail)"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_restate_repeats_a_killed_step_or_is_reported_as_missing(tmp_path: Path) -> None:
    found, stored = measured(tmp_path, "Restate")
    if why := missing_parts():
        assert stored["missing"] == {"Restate": why}
        return
    assert found["effects of the killed step: Restate"] == 2
    fates = stored["settings"]["killed"]["Restate"]
    assert fates == ["repeated without being asked (1 x charge, 2 x ship, 1 x mail)"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_chain_of_celery_loses_an_order_whose_process_is_killed(tmp_path: Path) -> None:
    found, stored = measured(tmp_path, BASE)
    assert found[f"effects of the killed step: {BASE}"] == 1
    assert stored["settings"]["killed"][BASE] == ["lost (1 x charge, 1 x ship, 0 x mail)"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_a_round_writes_does_not_grow_with_the_journal(tmp_path: Path) -> None:
    found, _ = measured(tmp_path, "step costs")
    first, last = QUICK_DEPTHS[0], QUICK_DEPTHS[-1]
    for kind in REPLAYED:
        for what in BYTES:
            least = found[f"{what}, round {first}: {kind}"]
            assert 0 < found[f"{what}, round {last}: {kind}"] <= GROWTH_AIM * least


def test_lines_of_code_are_counted_without_comments_and_docstrings() -> None:
    source = '''"""A module,
with a long docstring."""

# A comment.
def f(x):  # another
    """What it does."""
    text = """two
    lines"""

    return text
'''
    assert count_lines(source) == 4


def test_the_lines_of_each_example_are_found() -> None:
    assert all(10 < lines_of_module(side.module) < 60 for side in order_sides())
