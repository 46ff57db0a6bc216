"""run_shell in a container, with a runtime and real containers of Podman."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Container,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    SandboxCommand,
    ThisMachine,
    shell_command,
)
from perdure.flows.core.errors import InvalidFlow, RoundStopped
from perdure.flows.executors.container import ContainerFailed, container_named
from perdure.flows.executors.shell import ShellIn, _name_of, run_shell
from perdure.flows.rounds.context import altered
from tests.support.containers import IMAGE, containers, podman_in_path


@pytest.fixture
def context(tmp_path: Path) -> RoundContext:
    work = tmp_path / "work"
    work.mkdir()
    return RoundContext("g", workspace=str(work))


def program(directory: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of this name first in PATH."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{text}\n")
    (directory / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        (None, "podman is not installed here"),
        ("echo cannot connect >&2; exit 125", "podman does not work: cannot connect"),
        ('[ "$1" = ps ] || exit 1', "image 'img', which is not on this machine .podman pull img."),
        ("exit 0", None),
    ],
)
def test_what_this_machine_lacks_is_a_sentence_before_any_run(
    text: str | None, lacks: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        program(tmp_path, "podman", text, monkeypatch)

    class Boxed(ControllerExecutorFlow):
        runs_shell = True
        commands = (shell_command(Container("img", "podman")),)

        def decide(self, context: RoundContext) -> Any:
            return Finish("done")

    Boxed().check_definition()
    missing = Boxed().missing
    if lacks is None:
        assert missing is None
    else:
        assert missing is not None
        with pytest.raises(AssertionError, match=lacks):
            raise AssertionError(missing)


def test_a_container_that_cannot_be_started_is_an_error_that_can_be_retried(
    context: RoundContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = '[ "$1" = ps ] && exit 0; echo no such network >&2; exit 125'
    program(tmp_path / "bin", "docker", fails, monkeypatch)
    with pytest.raises(
        ContainerFailed, match=r"no such network.*docker run --rm img true"
    ) as error:
        ShellIn(Container("img"))(context, "true")
    assert error.value.code == "container-failed" and error.value.counts
    program(tmp_path / "bin", "docker", "echo cannot connect >&2; exit 1", monkeypatch)
    with pytest.raises(ContainerFailed, match="docker does not answer: cannot connect"):
        ShellIn(Container("img"))(context, "true")


def test_the_runtime_sees_no_secret_of_the_worker(
    context: RoundContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///x")
    for name in ("OPENAI_API_KEY", "PERDURE_REDIS_URL", "https_proxy"):
        monkeypatch.setenv(name, "canary")
    program(tmp_path / "bin", "docker", '[ "$1" = ps ] || env', monkeypatch)
    output = ShellIn(Container("img"))(context, "true")["output"]
    assert "DOCKER_HOST=unix:///x" in output and "canary" not in output


def test_the_workers_setting_chooses_the_sandbox_of_flows_that_name_none(
    context: RoundContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        container_named("podman:r.example:5000/a/b:1@sha256:ab").image
        == "r.example:5000/a/b:1@sha256:ab"
    )
    for text in ("img", "docker:", "sh:img"):
        with pytest.raises(InvalidFlow, match="expected docker:IMAGE or podman:IMAGE"):
            container_named(text)
    program(tmp_path / "bin", "docker", '[ "$1" = ps ] || echo "boxed: $@"', monkeypatch)
    boxed = altered(context, sandbox="docker:img")
    assert "boxed: run --rm" in run_shell(boxed, "echo bare")["output"]
    assert ShellIn(ThisMachine())(boxed, "echo bare")["output"] == "bare\n"


def test_a_program_reads_its_input(tmp_path: Path) -> None:
    command = SandboxCommand(["cat"], tmp_path, "n", input=b"x" * 100_000)
    ending = ThisMachine().run(command)
    assert (ending.exit, len(ending.tail) + ending.left_out) == (0, 100_000)


@pytest.fixture(scope="module")
def podman() -> Iterator[Path]:
    with podman_in_path() as programs:
        yield programs


def boxed(**options: Any) -> ShellIn:
    return ShellIn(Container(IMAGE, "podman", **options))


@pytest.mark.slow
def test_a_command_in_a_container_sees_the_workspace_and_no_more(
    podman: Path, context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert context.workspace is not None and boxed().missing is None
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    monkeypatch.setenv("http_proxy", "http://user:canary@proxy")
    Path(context.workspace, "in").write_text("from outside")
    script = (
        "pwd; cat in; echo; echo made > out; echo t > /tmp/t && echo tmp; touch /x || echo read-only;"
        " ls /sys/class/net; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status;"
        " cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2> /dev/null; env; exit 3"
    )
    result = boxed(memory="100m")(context, script)
    lines = result["output"].splitlines()
    assert result["exit"] == 3, result
    assert lines[:3] == ["/workspace", "from outside", "tmp"] and "read-only" in lines
    assert {"lo", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", str(100 * 1024 * 1024)} <= set(
        lines
    )
    assert "eth0" not in lines and "canary" not in result["output"]
    assert Path(context.workspace, "out").read_text() == "made\n"
    assert Path(context.workspace, "out").stat().st_uid == os.getuid()
    assert containers(podman) == []


@pytest.mark.slow
def test_a_command_in_a_container_is_killed_at_its_time_limit_and_with_its_round(
    podman: Path, context: RoundContext
) -> None:
    assert context.workspace is not None
    endless = "while :; do date >> ticks; sleep 0.1; done"
    result = boxed()(context, f"echo begun; {endless}", 2.0)
    assert result["exit"] is None and "2 s" in result["killed"] and result["output"] == "begun\n"
    assert containers(podman) == []
    ticks = Path(context.workspace, "ticks")
    assert ticks.stat().st_size, "it ran"
    ticks.unlink()

    def cancel() -> None:
        until = time.monotonic() + 20
        while not ticks.exists() and time.monotonic() < until:
            time.sleep(0.01)
        context.cancelled.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(RoundStopped):
        boxed()(context, endless)
    thread.join()
    assert containers(podman) == []


@pytest.mark.slow
def test_what_a_lost_worker_left_is_removed_by_the_next_attempt_and_what_is_overdue_by_any(
    podman: Path, context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Container(IMAGE, "podman")

    def leave(step: int, until: float) -> None:
        """Start a container as a worker that is lost."""
        name = f"perdure-{_name_of(altered(context, step=step))}-{until:.0f}"
        started = sandbox._call(
            "run",
            "--detach",
            "--stop-signal",
            "KILL",
            "--name",
            name,
            "--network",
            "none",
            IMAGE,
            "sleep",
            "600",
        )
        assert started.returncode == 0, started.stderr

    leave(1, time.time() + 600)
    leave(2, time.time() + 600)
    leave(3, time.time() - 1)
    ShellIn(sandbox).kill_leftovers(altered(context, step=1))
    left = containers(podman)
    assert len(left) == 1 and _name_of(altered(context, step=2)) in left[0], left
    assert ShellIn(sandbox)(altered(context, step=2), "echo again")["output"] == "again\n"
    assert containers(podman) == []


@pytest.mark.slow
def test_a_container_has_no_more_memory_and_processes_than_it_was_given(
    podman: Path, context: RoundContext
) -> None:
    script = (
        "head -c 8000000 /dev/zero > /tmp/full; stat -c 'full %s' /tmp/full; rm /tmp/full;"
        " dd if=/dev/zero of=/dev/null bs=200M count=1; echo hungry $?;"
        " for i in $(seq 20); do sleep 0.5 & done; wait"
    )
    result = boxed(temporary="4m", memory="32m", processes=8)(context, script)
    assert f"full {4 * 1024 * 1024}" in result["output"], result
    assert "hungry 137" in result["output"], "killed for its memory"
    assert "can't fork" in result["output"] or "Resource temporarily" in result["output"], result
