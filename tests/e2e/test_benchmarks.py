"""The benchmarks run: one short pass of our side and of plain Celery. What they measure means nothing here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.sides.registry import BASE

ROOT = Path(__file__).parents[2]
OURS = "Perdure, threads, without fetch"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_rounds_are_measured_side_by_side_and_stored(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "rounds",
        "--quick",
        "--only",
        OURS,
        "--only",
        BASE,
        "--into",
        str(tmp_path),
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    stored = json.loads((tmp_path / "rounds.json").read_text())
    assert stored["quick"]
    assert stored["missing"] == {}
    ratios = {measure["name"]: measure.get("ratio") for measure in stored["measures"]}
    for size in ("500 bytes", "10000 bytes"):
        assert ratios[f"rounds, {size}: {OURS}"] > 0
        assert ratios[f"rounds, {size}: {BASE}"] == 1
    scripts = {measure["name"]: measure["median"] for measure in stored["measures"]}
    assert scripts[f"scripts, 500 bytes: {OURS}"] >= 1
    assert scripts[f"scripts, 500 bytes: {BASE}"] < 0.5  # kombu has one, called now and then
    assert OURS in ended.stdout and "rounds/s" in ended.stdout
