"""run_shell in a container: the request to the runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perdure import Container, SandboxCommand
from perdure.flows.core.errors import InvalidFlow


def test_the_runtime_is_asked_for_a_container_that_may_do_nothing(tmp_path: Path) -> None:
    sandbox = Container("img:1", memory="1g", cpus=1.5, user="10:20", environment={"A": "b c"})
    command = SandboxCommand(["/bin/sh", "-c", "echo hi"], tmp_path, "n", timeout=5.0)
    assert sandbox.command_line(command, "perdure-n-7", tmp_path / "id") == [
        *("docker", "run", "--rm", "--name", "perdure-n-7", "--cidfile", f"{tmp_path}/id"),
        *("--pull", "never", "--log-driver", "none", "--stop-signal", "KILL"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "10:20"),
        *("--network", "none", "--pids-limit", "256", "--memory", "1g", "--memory-swap", "1g"),
        *("--cpus", "1.5", "--read-only", "--tmpfs", "/tmp:rw,nosuid,nodev,size=64m"),
        *("--mount", f"type=bind,source={tmp_path},target=/workspace"),
        *("--workdir", "/workspace", "--entrypoint", "/bin/sh"),
        *("--env", "HOME=/tmp", "--env", "A=b c", "img:1", "-c", "echo hi"),
    ]


def test_a_flow_may_allow_more(tmp_path: Path) -> None:
    sandbox = Container(
        "img",
        "podman",
        network="egress",
        memory=None,
        read_only=False,
        options=["--gpus", "all"],
        user="0:0",
    )
    line = sandbox.command_line(SandboxCommand(["cat"], tmp_path, "n", input=b"x"), "c", tmp_path)
    assert line[line.index("--network") + 1] == "egress" and "--interactive" in line
    assert "--memory" not in line and "--read-only" not in line
    assert line[-4:] == ["--http-proxy=false", "--gpus", "all", "img"]
    everywhere = Container("img", network=True).command_line(
        SandboxCommand(["cat"], tmp_path, "n"), "c", tmp_path
    )
    assert "--network" not in everywhere and "--interactive" not in everywhere


@pytest.mark.parametrize(
    ("uid", "user", "is_mapped"), [(0, None, False), (7, None, True), (7, "7:7", False)]
)
def test_podman_maps_the_user_of_a_worker_that_is_not_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, user: str | None, is_mapped: bool
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: uid)
    sandbox = Container("img", "podman", user=user)
    line = sandbox.command_line(SandboxCommand(["cat"], tmp_path, "n"), "c", tmp_path)
    assert ("--userns" in line and line[line.index("--userns") + 1] == "keep-id") is is_mapped


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": "--privileged"}, {"image": ""}, {"runtime": "sh"}, {"network": "--host"}, {"memory": "lots"}, {"cpus": 0},
        {"cpus": float("nan")}, {"processes": 1.5}, {"temporary": "1m,exec"}, {"user": "-1"}, {"environment": {"A=B": "c"}},
    ],
)  # fmt: skip
def test_what_no_container_can_have_is_refused_with_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow, match=f"Container: {next(iter(wrong))} is .*; expected"):
        Container(**{"image": "img", **wrong})


def test_a_workspace_that_cannot_be_mounted_is_refused() -> None:
    with pytest.raises(InvalidFlow, match="without commas"):
        Container("img").command_line(SandboxCommand(["a"], Path("/a,b"), "n"), "c", Path("/c"))
