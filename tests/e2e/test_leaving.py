"""``perdure worker`` and Ctrl-C: once it finishes its rounds, twice it leaves them to others, on
every pool.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.redis_servers import until
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS

MODULE = "tests.support.example_flows.rings"
#: Longer than any test waits: a run that goes on within it knew that the lease was released.
LONG_LEASE = "120"


pytestmark = pytest.mark.settings(flow_modules=(MODULE,))


@pytest.fixture
def perdure(tmp_path: Path, settings: Settings) -> CommandLine:
    return CommandLine(
        tmp_path, settings, PERDURE_FLOW_MODULES=MODULE, PERDURE_LEASE_SECONDS=LONG_LEASE
    )


def in_a_round(client: Client, seconds: float) -> str:
    """Submit a run, and wait until it is in the middle of a round of this length."""
    run_id = client.submit("ledger", "g", {"rounds": 2, "seconds": seconds}).id
    until(
        lambda: "beat_at" in (client._store.reads.fields(run_id) or {}), "the middle of the round"
    )
    return run_id


def control_c(process: subprocess.Popen[str]) -> None:
    """Send SIGINT to the process group, as terminals do."""
    os.killpg(process.pid, signal.SIGINT)


@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_ctrl_c_finishes_the_round_in_flight_and_is_no_error(
    perdure: CommandLine, client: Client, pool: str
) -> None:
    with perdure.worker("--pool", pool, "--concurrency", "1") as worker:
        run_id = in_a_round(client, seconds=2.5)
        control_c(worker)
        _, said = worker.communicate(timeout=30)
    assert worker.returncode == 0 and "Traceback" not in said
    run = client.get(run_id)
    assert (run.phase, run.state.step, client.workers()) == ("queued", 1, [])


@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_a_second_ctrl_c_does_not_wait_and_another_worker_goes_on_at_once(
    perdure: CommandLine, client: Client, pool: str
) -> None:
    with perdure.worker("--pool", pool, "--concurrency", "1") as worker:
        run_id = in_a_round(client, seconds=600)
        control_c(worker)
        until(lambda: told(worker), "the first to be heard")
        control_c(worker)
        _, said = worker.communicate(timeout=30)
    assert worker.returncode == 130 and "Traceback" not in said
    assert client.workers() == []
    with perdure.worker("--concurrency", "1"):
        until(lambda: client.get(run_id).details["attempt"] == 2, "the next attempt")
    assert [event.type for event in client.events(run_id, follow=False)] == ["submitted", "lost"]


@pytest.mark.slow
def test_many_sigterms_are_as_one(tmp_path: Path, settings: Settings, client: Client) -> None:
    with CommandLine(
        tmp_path, settings, PERDURE_FLOW_MODULES="tests.support.apps.slow_shutdown"
    ).worker("--concurrency", "1") as worker:
        run_id = in_a_round(client, seconds=1.5)
        for _ in range(1000):  # in the middle of the first one's work
            worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=30)
    assert worker.returncode == 0 and "Traceback" not in said
    assert (client.get(run_id).phase, client.get(run_id).state.step, client.workers()) == (
        "queued",
        1,
        [],
    )


def told(worker: subprocess.Popen[str]) -> bool:
    """Return whether the worker logs its shutdown."""
    assert worker.stdout is not None
    return any("Warm shutdown" in line for line in iter(worker.stdout.readline, ""))
