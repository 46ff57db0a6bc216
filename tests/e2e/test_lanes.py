"""Brief rounds of many runs are played in a few slots, and waiting rounds beside them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from perdure import Client, Settings
from perdure.worker.engine.fast.cpu_limiter import SLOTS
from tests.support.command_line import CommandLine
from tests.support.example_flows import rings  # noqa: F401 -- registers flows
from tests.support.workers import workers

PLACES = 4 * SLOTS

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.rings",))


def drive(client: Client, settings: Settings, runs: int, **inputs: Any) -> list[tuple[int, int]]:
    """Play runs of ``traffic`` in one worker; return the run of each round, and the number of
    rounds beside it.
    """
    with workers(1, settings, "--pool", "threads", "--concurrency", str(PLACES)):
        client.wait(client.submit("ledger", "warm up", {"rounds": 4}).id, 30)
        ids = [
            client.submit("traffic", "go", {"number": number, **inputs}).id
            for number in range(runs)
        ]
        ended = [client.wait(run_id, 60) for run_id in ids]
        assert all(run.answer for run in ended), [run.error for run in ended]
        return max((run.answer for run in ended), key=len)


def test_brief_rounds_of_many_runs_go_on_in_a_few_lanes(client: Client, settings: Settings) -> None:
    """Of any few rounds in a row, most belong to as many runs as there are slots of the CPU
    limiter, though the pool has more.
    """
    runs, rounds, row = 2 * PLACES, 300, 4 * SLOTS
    log = [run for run, _ in drive(client, settings, runs, rounds=rounds)]
    middle = log[len(log) // 4 : 3 * len(log) // 4]  # all have begun, and none has ended
    rows = [
        Counter(middle[place : place + row]).most_common(SLOTS)
        for place in range(0, len(middle) - row, row)
    ]
    of_few = sum(count for found in rows for _, count in found) / (row * len(rows))
    assert of_few > 0.6, of_few  # without the limiter some 0.4


def test_rounds_that_wait_are_played_at_once_however_many(
    client: Client, settings: Settings
) -> None:
    log = drive(client, settings, PLACES, rounds=20, seconds=0.02)
    assert median(beside for _, beside in log[40:-40]) > 2 * SLOTS


def test_nothing_hangs_on_a_lane(client: Client, settings: Settings) -> None:
    """The rounds in a slot wait for the others, after many brief rounds in which they did not."""
    runs = 3 * SLOTS
    log = drive(client, settings, runs, rounds=40, together=runs)
    assert len(log) == 40 * runs


def test_threads_that_begin_at_once_do_not_each_look_through_all_that_is_installed(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    """As Celery does where a task, or the app of its first message, first looks for a result
    backend: 500 threads took a minute for it.
    """
    perdure = CommandLine(
        tmp_path,
        settings,
        PERDURE_FLOW_MODULES="tests.support.example_flows.rings,tests.support.apps.entry_point_counter",
    )
    with perdure.worker("--concurrency", "32"):
        # All are in their first round together, and make their next messages at once.
        inputs = {"rounds": 2, "seconds": 0.5, "together": 32}
        ids = [
            client.submit("traffic", "go", {"number": number, **inputs}).id for number in range(32)
        ]
        for run_id in ids:
            client.wait(run_id, 60)
    assert (
        client._store.redis.get(f"{settings.prefix}:test:looked") == "1"
    )  # tests.support.apps.entry_point_counter's own
