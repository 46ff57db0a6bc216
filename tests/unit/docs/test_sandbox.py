"""What docs/guides/sandbox.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure import Container, ControllerExecutorFlow, Sandbox, SandboxCommand, ThisMachine
from perdure.flows.executors.shell import ShellIn
from perdure.flows.shapes.config import ContainerConfig
from perdure.flows.yaml_flows.load import read_flow
from tests.support.flow_registry import own_registry

TEXT = (Path(__file__).parents[3] / "docs" / "guides" / "sandbox.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(autouse=True)
def registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the guide registers is not announced by the workers of later tests."""
    own_registry(monkeypatch)


def names_of(number: int) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}
    exec([text for kind, text in BLOCKS if kind == "python"][number], names)
    return names


def test_the_flow_file_and_the_class_have_the_same_container(tmp_path: Path) -> None:
    [text] = [text for kind, text in BLOCKS if kind == "yaml"]
    (tmp_path / "coder.yaml").write_text(text, "utf-8")
    flow = read_flow(tmp_path / "coder.yaml")()
    assert isinstance(flow, ControllerExecutorFlow)
    expected = ShellIn(Container("python:3.13-slim", memory="1g", cpus=2))
    assert flow.offered()["run_shell"].function == expected
    in_python = names_of(0)["PythonCoder"]()
    in_python.check_definition()
    assert in_python.offered()["run_shell"].function == expected


def test_the_table_has_all_keys() -> None:
    [table] = re.findall(r"## Keys\n(.*?)\n## ", TEXT, re.DOTALL)
    firsts = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    keys = [key for first in firsts for key in re.findall(r"`(\w+)`", first)]
    assert sorted(keys) == sorted(ContainerConfig.model_fields)


def test_the_sandbox_of_your_own_is_one(tmp_path: Path, monkeypatch: Any) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "on $1"\nexec sh -c "$2"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sandbox: Sandbox = names_of(1)["OverSsh"]("host")
    ending = sandbox.run(SandboxCommand(["echo", "a  b"], tmp_path, "n"))
    assert (ending.exit, ending.tail) == (0, "on host\na  b\n") and sandbox.missing is None
    sandbox.kill("n")
    assert ThisMachine().missing is None
