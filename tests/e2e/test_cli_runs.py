"""Commands that go on, as processes: signals, pipes, `up`, `demo` and `worker`.

Commands that end by themselves are in tests/run/commands.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.worker.embedded import EmbeddedServer
from perdure.worker.settings import Settings
from tests.support.command_line import COMMAND, CommandLine, CommandProcess, wait_for_line
from tests.support.redis_servers import until


@pytest.fixture
def perdure(tmp_path: Path, settings: Settings) -> CommandLine:
    return CommandLine(tmp_path, settings)


@pytest.fixture
def worker(perdure: CommandLine) -> Iterator[subprocess.Popen[str]]:
    with perdure.worker("--concurrency", "4") as process:
        yield process


def test_ctrl_c_on_watch_leaves_the_run_going_and_says_how_to_find_it(
    perdure: CommandLine, client: Client
) -> None:
    client.submit("countdown", "x", {"rounds": 1, "seconds": 600}, run_id="long")
    with perdure.running("watch", "long") as watching:
        assert watching.stdout is not None
        assert "submitted" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=20)
    assert watching.returncode == 130
    assert "perdure watch long" in said and "Traceback" not in said
    assert not client.get("long").status.ended
    client.request_stop("long", "now")


def test_sigterm_drains_the_round_and_not_the_run(
    perdure: CommandLine, client: Client, worker: subprocess.Popen[str]
) -> None:
    client.submit("countdown", "x", {"rounds": 1000, "seconds": 0.2}, run_id="long")
    next(
        event
        for event in client.events("long")
        if event.type == "committed" and event.node == "Executor"
    )
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=30)
    assert worker.returncode == 0 and "Traceback" not in said, said
    left = client.get("long")
    assert not left.status.ended and left.phase == "queued"  # no run has to wait for a lease
    assert [found["alive"] for found in client.workers()] == []


def test_a_reader_that_leaves_early_is_no_error(perdure: CommandLine, client: Client) -> None:
    for _ in range(40):
        client.submit("question", "x" * 4000)  # more than a pipe holds
    with perdure.running("list") as listing:
        assert listing.stdout is not None and listing.stderr is not None
        listing.stdout.readline()
        listing.stdout.close()
        assert listing.stderr.read() == ""
    assert listing.returncode == 0


@pytest.mark.parametrize("name", ["config", "flows", "worker"])
def test_packages_of_the_project_with_names_of_our_folders_change_nothing(
    perdure: CommandLine, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise AssertionError('this is not ours')")
    path = f"{tmp_path}{os.pathsep}{perdure.environment['PYTHONPATH']}"
    command = [sys.executable, "-P", "-m", "perdure", "list"]
    environment = {**perdure.environment, "PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done


def test_up_gives_a_server_and_a_worker_that_others_find_and_ctrl_c_ends_both(
    tmp_path: Path,
) -> None:
    perdure = CommandLine(tmp_path)
    with perdure.running("up", "--concurrency", "2", "--no-server") as up:
        wait_for_line(up, "worker ready")
        first = perdure("submit", "countdown", "x", "--watch")
        assert first.code == 0 and "counted down" in first.out, first
        [worker] = perdure("workers", "--json").json
        assert "bisect" in worker["flows"] and worker["concurrency"] == 2
        os.kill(worker["pid"], signal.SIGKILL)
        wait_for_line(up, "starting another")
        wait_for_line(up, "worker ready")
        [other] = [
            found for found in perdure("workers", "--json").json if found["pid"] != worker["pid"]
        ]
        up.send_signal(signal.SIGINT)
        _, said = up.communicate(timeout=30)
    assert up.returncode == 0 and "worker and server stopped" in said and "Traceback" not in said
    until(lambda: not Path(f"/proc/{other['pid']}").exists(), "the worker's end")
    assert not (tmp_path / "state" / "perdure" / "server.sock").exists()


@pytest.mark.slow
def test_up_takes_no_broker_of_another_server(tmp_path: Path) -> None:
    perdure = CommandLine(
        tmp_path,
        PERDURE_REDIS_URL="redis://127.0.0.1:1/0",
        PERDURE_BROKER_URL="amqp://127.0.0.1:1//",
    )
    with perdure.running("up", "--no-server") as up:
        ready = wait_for_line(up, "worker ready")
        up.send_signal(signal.SIGINT)  # killed, it would leave its server behind
        up.communicate(timeout=30)
    assert "127.0.0.1" not in ready


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "PERDURE_BROKER_URL",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND")
        ),
    ],
)
def test_up_and_who_finds_it_are_drawn_to_no_broker_or_result_backend_of_the_environment(
    tmp_path: Path, name: str
) -> None:
    perdure = CommandLine(
        tmp_path, **{name: "amqp://me@127.0.0.1:1//" if "BROKER" in name else "django-db"}
    )
    with perdure.running("up", "--no-server") as up:
        wait_for_line(up, "worker ready")
        assert perdure("submit", "countdown", "x", "--watch").code == 0
        [worker] = perdure("workers", "--json").json
        [handover] = [row for row in perdure("doctor", "--json").json if row["check"] == "handover"]
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=30)
    assert worker["handover"] == "fused" and handover["level"] == "ok"


@pytest.mark.slow
def test_the_worker_of_an_up_that_is_killed_leaves_by_itself(tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path)
    with perdure.running("up", "--no-server") as up:
        wait_for_line(up, "worker ready")
        [worker] = perdure("workers", "--json").json
        up.kill()
        up.wait(20)
        until(lambda: not Path(f"/proc/{worker['pid']}").exists(), "the worker's end")
    # The server stays, as a daemon, with the acknowledged run; the next process to start it takes
    # it over, and ends it.
    with EmbeddedServer(tmp_path / "state" / "perdure") as server:
        assert server.owned
        assert perdure("list").code == 0


@pytest.mark.slow
def test_the_demo_kills_its_worker_in_a_round_and_finds_what_git_finds(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "demo", "--json"],
        cwd=tmp_path,
        env=CommandLine(tmp_path, TMPDIR=str(tmp_path)).environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["same"] and told["perdure"] == told["git"] and told["killed_step"] % 2 == 1
    assert [run["status"] for run in told["tree"]] == ["completed"] * 4 and told["agents_hit"]
    assert told["tree"][0]["answer"]["lots"][1][told["said"]] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_demo_that_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path, TMPDIR=str(tmp_path))
    with perdure.running("demo") as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if "step 1" in line)
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=30)
    assert demo.returncode == 130 and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_during_an_import_ends_a_command_with_its_exit_code(
    settings: Settings, tmp_path: Path
) -> None:
    """Python would end the process by SIGINT if code compiled from a text was interrupted."""
    (tmp_path / "pressed.py").write_text('exec("raise KeyboardInterrupt")\n')
    perdure = CommandProcess(
        tmp_path,
        settings,
        PERDURE_FLOW_MODULES="pressed",
        PYTHONPATH=os.pathsep.join([os.getcwd(), str(tmp_path)]),
    )
    done = perdure("submit", "countdown", "x")
    assert (done.code, done.err) == (130, "\ninterrupted\n")


@pytest.mark.slow
def test_workers_play_their_role_on_the_pool_they_were_given(
    perdure: CommandLine, client: Client
) -> None:
    with (
        perdure.worker("--role", "controller", "--pool", "solo"),
        perdure.worker("--role", "executor", "--pool", "prefork", "--concurrency", "2"),
    ):
        assert {
            (worker["role"], worker["pool"], worker["concurrency"]) for worker in client.workers()
        } == {
            ("controller", "solo", 1),
            ("executor", "prefork", 2),
        }
        run = client.submit("countdown", "x", {"rounds": 2})
        assert client.wait(run.id, 20).status is RunStatus.COMPLETED
    refused = perdure("worker", "--enable", "bisekt")
    assert refused.code == 2 and "bisekt" in refused.err and "bisect" in refused.err
