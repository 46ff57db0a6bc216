"""run_shell in containers of real workers: the remains of a container after a stop, and after a
killed worker.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.containers import IMAGE, containers, podman_in_path
from tests.support.example_flows.shell_command import Boxed
from tests.support.redis_servers import until
from tests.support.workers import workers

pytestmark = pytest.mark.slow
ENDLESS = "echo begun > begun; while :; do echo tick >> ticks; sleep 0.1; done"


@pytest.fixture(scope="module")
def podman() -> Iterator[Path]:
    with podman_in_path() as programs:
        yield programs


@pytest.fixture
def boxed(tmp_path: Path) -> dict[str, str]:
    """Environment of workers with shell commands in containers."""
    assert Boxed.runs_shell
    return {
        "PERDURE_FLOW_MODULES": "tests.support.example_flows.shell_command",
        "PERDURE_ENABLED_FLOWS": "boxed",
        "PERDURE_WORKSPACE": str(tmp_path),
        "PERDURE_SANDBOX": f"podman:{IMAGE}",
    }


def test_a_stop_and_the_death_of_a_worker_leave_no_container(
    podman: Path, client: Client, settings: Settings, boxed: dict[str, str], tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    with workers(1, settings, **boxed) as [worker]:
        run = client.wait(client.submit("boxed", "pwd; id -u").id, 30)
        assert run.answer["output"] == f"/workspace\n{os.getuid()}\n", run

        stopped = client.submit("boxed", ENDLESS)
        until(begun.exists, "the command")
        client.request_stop(stopped.id, mode="now")
        assert client.wait(stopped.id, 20).status is RunStatus.STOPPED
        until(lambda: not containers(podman), "the end of the container")

        begun.unlink()
        lost = client.submit("boxed", ENDLESS)
        until(begun.exists, "the command")
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        assert len(containers(podman)) == 1, "it outlives the worker"
    with workers(1, settings, **boxed):
        run = client.wait(lost.id, 40)
        assert "the outcome of this command is unknown" in run.answer["in_doubt"], run
        assert containers(podman) == []
