"""The benchmarks run: one short pass of our side and of plain Celery, and the processes that they
start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.parts import PARTS
from benchmarks.processes import cpu_seconds, family, process, python, until
from benchmarks.sides.registry import BASE

ROOT = Path(__file__).parents[2]
OURS = "Perdure, threads, without fetch"

pytestmark = pytest.mark.slow  # no run depends on it


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


def test_an_unknown_part_is_refused_and_the_known_ones_are_named() -> None:
    ended = subprocess.run(
        python("-m", "benchmarks", "rond"), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert all(name in ended.stderr for name in ("rond", *PARTS))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_cpu_time_is_that_of_a_process_and_of_all_that_it_started() -> None:
    """The child makes a new session, as PostgreSQL's do, and computes; its parent sleeps."""
    # Longer than the wait: each of the four figures that are added up is given in whole hundredths.
    child = "import os, time\nos.setsid()\nwhile time.process_time() < 0.5: pass\ntime.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with process(python("-c", parent)) as running:
        until(lambda: (cpu_seconds([running.pid]) or 0) >= 0.4, "the CPU time of the child", 20)
        assert len(family([running.pid])) == 2
        others = family([running.pid]) - {running.pid}
    for pid in others:
        os.kill(pid, 9)  # it left the group that was killed


def test_what_ended_before_it_should_says_what_it_wrote() -> None:
    def waits_in_vain() -> None:
        with process(python("-c", "import sys; print('no such thing'); sys.exit(3)")) as running:
            running.wait()
            raise TimeoutError

    with pytest.raises(RuntimeError, match=r"(?s)ended with 3; it said: .*no such thing"):
        waits_in_vain()
