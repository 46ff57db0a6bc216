"""docker-compose.yml without Docker: each service's exact command, health check and stop signal, as
processes of this machine.

Stand-ins for the containers: host names become the address of a server of the test, paths in a
volume become the files mounted there, and ``perdure`` is this checkout's.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from perdure.worker.store import StoreUnavailable
from perdure.worker.store.urls import check_answers
from tests.support.command_line import ROOT
from tests.support.docker_compose import SERVICES, Container, program
from tests.support.ports import free_port
from tests.support.redis_servers import available_binaries, until

WORKERS = ("controller", "executor")
FLOWS = """
from pathlib import Path
from perdure import Command, ControllerExecutorFlow, Finish, command, register

@register("slow")
class Slow(ControllerExecutorFlow):
    def decide(self, context):
        return Command("work") if len(context.history) == 0 else Finish("worked")

    @command
    def work(self, context) -> str:
        folder = Path(context.inputs["folder"])
        (folder / "begun").touch()
        while not (folder / "go-on").exists():
            context.cancelled.wait(0.01)
        return "worked"
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "my_flows.py").write_text(FLOWS)
    return tmp_path


@contextmanager
def containers(directory: Path, settings: Settings) -> Iterator[Mapping[str, Container]]:
    """Start the workers of the compose file, and wait until they are healthy."""
    assert settings.redis_url is not None
    started = {
        name: Container(name, directory, settings.redis_url, settings.prefix) for name in WORKERS
    }
    try:
        for each in started.values():
            until(each.healthy, "a healthy worker")
        yield started
    finally:
        for each in started.values():
            each.end()


@pytest.mark.slow
def test_the_services_play_a_run_and_each_drains_its_round_at_sigterm(
    directory: Path, settings: Settings, client: Client
) -> None:
    with containers(directory, settings) as started:
        roles = sorted(worker["role"] for worker in client.workers())
        assert roles == ["controller", "executor"]
        with_flow = [worker for worker in client.workers() if "slow" in worker["flows"]]
        assert len(with_flow) == 2
        run = _submit(directory, settings, started["executor"])
        until((directory / "begun").exists, "the round to begin")
        started["executor"].process.send_signal(signal.SIGTERM)
        until(lambda: _draining(client, started["executor"]), "the executor to take SIGTERM")
        assert started["executor"].process.poll() is None, "it waits for the round in flight"
        (directory / "go-on").touch()
        assert started["executor"].process.wait(30) == 0
        left = client.wait(
            run, 30
        )  # the controller alone can end it: the executor's round was committed
        assert left.status is RunStatus.COMPLETED and left.answer == "worked"
        committed = [
            (event.step, event.node, event.attempt)
            for event in client.events(run, follow=False)
            if event.type == "committed"
        ]
        assert committed == [(0, "Controller", 1), (1, "Executor", 1), (2, "Controller", 1)]
        started["controller"].process.send_signal(signal.SIGTERM)
        assert started["controller"].process.wait(30) == 0
        assert client.workers() == []


def _submit(directory: Path, settings: Settings, container: Container) -> str:
    done = subprocess.run(
        program(["perdure", "submit", "slow", "x", "--input", f"folder={directory}", "--id", "r"]),
        cwd=directory,
        env=container.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return "r"


def _draining(client: Client, container: Container) -> bool:
    """Return whether it has stopped consuming: a warm shutdown has begun (it withdraws only at the
    end).
    """
    try:
        status = Path(f"/proc/{container.process.pid}/status").read_text()
    except FileNotFoundError:
        return True
    pending = [
        line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))
    ]
    return all(int(mask, 16) & (1 << (signal.SIGTERM - 1)) == 0 for mask in pending)


@pytest.mark.slow
def test_a_worker_is_unhealthy_when_its_process_is_gone_or_it_cannot_reach_the_server(
    directory: Path, settings: Settings
) -> None:
    with containers(directory, settings) as started:
        executor = started["executor"]
        healthy = executor.check()
        assert healthy.returncode == 0 and f"{socket.gethostname()}:" in healthy.stdout
        away = executor.check(PERDURE_REDIS_URL=f"unix://{directory}/none.sock")
        assert away.returncode == 7
        for each in started.values():
            os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait(10)
        gone = executor.check()
        assert gone.returncode == 1 and "its process is gone" in gone.stderr
        assert executor.check(PERDURE_PREFIX="another").returncode == 1


@pytest.mark.slow
def test_a_worker_that_stands_still_is_unhealthy(directory: Path, settings: Settings) -> None:
    with containers(directory, settings) as started:
        for each in started.values():
            os.kill(each.process.pid, signal.SIGSTOP)
        short = {"PERDURE_HEARTBEAT_SECONDS": "0.1"}
        until(
            lambda: started["executor"].check(**short).returncode == 1, "the silence to be noticed"
        )
        assert "no heartbeat for" in started["executor"].check(**short).stderr


def test_the_server_starts_with_its_command_answers_its_check_and_keeps_what_it_has(
    tmp_path: Path,
) -> None:
    service = SERVICES["valkey"]
    binary, cli = (
        available_binaries().get("valkey"),
        shutil.which("valkey-cli") or shutil.which("redis-cli"),
    )
    if binary is None and "CI" not in os.environ:
        pytest.skip("this machine has no valkey-server")
    mounts = dict(volume.split(":")[:2][::-1] for volume in service["volumes"])
    mounts["/data"] = str(tmp_path)
    words = [mounts.get(word, word) for word in service["command"]]
    assert words[0] == "valkey-server" and words[1] == "./config/redis.conf"
    words[words.index("--bind") + 1] = (
        "127.0.0.1"  # the container's network is its own, this machine's is not
    )
    port = free_port()
    command = [str(binary), *words[1:], "--port", str(port)]
    for round_number in range(2):
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                with closing(Client(f"redis://127.0.0.1:{port}/0")) as client:
                    until(lambda: _answers(f"redis://127.0.0.1:{port}/0"), "the server")
                    if round_number == 0:
                        client.submit("countdown", "x", run_id="kept")
                    assert client.get("kept").goal == "x"
                if cli is not None:
                    kind, _, *arguments = service["healthcheck"]["test"]
                    assert kind == "CMD"
                    assert (
                        subprocess.run(
                            [cli, "-p", str(port), *arguments], capture_output=True, check=False
                        ).stdout
                        == b"PONG\n"
                    )
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            finally:
                if process.poll() is None:
                    process.kill()


def _answers(url: str) -> bool:
    try:
        check_answers(url)
    except StoreUnavailable:
        return False
    return True
