"""The benchmarks of how cost grows run, each in a short pass.

Times mean nothing here; counts and bytes do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from benchmarks.script_driver import STAYS, Driven, carried
from benchmarks.scripts import MODES
from perdure.worker.engine.sweeper import BATCH
from tests.support.redis_servers import server

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def measured(part: str, into: Path, *options: str) -> dict[str, float]:
    """Run the benchmark; return the medians by name."""
    command = [sys.executable, "-m", "benchmarks", part, "--quick", "--into", str(into), *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    stored = json.loads((into / f"{part}.json").read_text())
    return {measure["name"]: measure["median"] for measure in stored["measures"]}


def test_the_scripts_are_driven_in_each_way(tmp_path: Path) -> None:
    found = measured("scripts", tmp_path, "--only", "valkey*")
    for mode in MODES:
        (rate,) = [
            value
            for name, value in found.items()
            if name.startswith("by the clock") and name.endswith(mode)
        ]
        (cost,) = [
            value
            for name, value in found.items()
            if name.startswith("server CPU") and name.endswith(mode)
        ]
        assert rate > 0 and cost > 0


def test_of_runs_that_stay_nearly_every_round_is_one_script_that_pops_nothing() -> None:
    with server("valkey", "everysec") as running:
        done = carried(Driven(str(running.socket), mode=STAYS, processes=1, connections=4), 1.0)
        with redis.Redis(unix_socket_path=str(running.socket)) as client:
            told: Any = client.info("commandstats")
    calls = {name: told[f"cmdstat_{name}"]["calls"] for name in ("evalsha", "rpop")}
    assert 0 < done.rounds < calls["evalsha"] and calls["rpop"] < calls["evalsha"] / 4


def test_a_round_of_a_long_run_sends_and_writes_no_more_than_one_of_a_short_run(
    tmp_path: Path,
) -> None:
    found = measured("growth", tmp_path)
    for bytes_ in ("bytes to the server", "bytes from the server", "bytes in the log of writes"):
        assert 0 < found[f"{bytes_}: round 100"] <= 1.2 * found[f"{bytes_}: round 10"]


def test_what_parked_runs_take_is_told_by_the_run(tmp_path: Path) -> None:
    found = measured("parked", tmp_path)
    (few, many) = (value for name, value in found.items() if name.startswith("memory of each"))
    # The tables of the server grow by leaps, which a hundred runs still notice.
    assert many == pytest.approx(few, abs=1_000), "each takes the same, however many there are"
    assert max(few, many) < 4_000, "a hash of many small pieces, or a message, would be more"
    assert found["sweep, beside 1,000"] > 0 and found["heartbeat, beside 1,000"] > 0


def test_a_scrape_beside_many_runs_is_measured(tmp_path: Path) -> None:
    found = measured("metrics", tmp_path)
    assert found["scrape, 100 runs"] > 0 and found["scrape, 1,000 runs"] > 0


def test_a_page_of_runs_is_asked_for_beside_few_and_many(tmp_path: Path) -> None:
    found = measured("listing", tmp_path)
    assert len(found) == 6 and all(value > 0 for value in found.values())


def test_a_backlog_is_worked_through_and_swept(tmp_path: Path) -> None:
    found = measured("backlog", tmp_path)
    assert (
        found["rounds, 2,000 runs queued"] > 0
        and found[f"sweep of {BATCH} runs in line, 2,000 runs queued"] > 0
    )


@pytest.mark.long
def test_a_kill_beside_a_wave_of_sleepers_and_one_under_a_supervisor_are_measured(
    tmp_path: Path,
) -> None:
    assert measured("wave", tmp_path)["kill to the next claim"] > 0
    found = measured("supervised", tmp_path)
    assert found["kill to the next claim"] > 0 and any(
        "that were claimed" in name for name in found
    )


def test_rounds_that_wait_do_so_at_once_and_without_errors(tmp_path: Path) -> None:
    found = measured("waiting", tmp_path)
    assert found["8 rounds of 1 s: errors"] == 0
    assert found["8 rounds of 1 s: of the ideal rate"] > 2 / 8, (
        "one after the other, it would be an eighth"
    )


def test_the_memory_of_a_worker_is_measured_before_and_after_it_played(tmp_path: Path) -> None:
    found = measured("memory", tmp_path, "--only", "threads")
    assert 0 < found["threads, ready: PSS"] <= found["threads, ready: RSS"]
    assert found["threads, after 60 rounds: RSS"] > 0


def test_a_fleet_is_simulated_on_what_the_server_really_needs(tmp_path: Path) -> None:
    found = measured("fleet", tmp_path)
    assert found["rounds, 100 workers, model of 10 s"] == pytest.approx(100, rel=0.2), (
        "a thousand slots, ten seconds each"
    )
