"""The key sandbox of a command in a flow file: it becomes a container, and each fault is reported
at its line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import (
    BranchingFlow,
    Container,
    ControllerExecutorFlow,
    Finish,
    InvalidFlow,
    RoundContext,
)
from perdure.flows.executors.shell import ShellIn, run_shell
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.loading.load import read_flow

FILE = """\
flow: controller_executor
controller: person
runs_shell: true
subflows_config:
  Executor:
    subflows_config:
      run_shell:
        description: A shell with Python 3.13.
        sandbox:
          image: python:3.13-slim
          runtime: podman
          memory: 2g
          cpus: 2
          environment: {PIP_NO_INDEX: "1"}
      read_file: {}
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "mine.yaml"
    path.write_text(text)
    return path


def test_a_file_names_the_container_of_its_shell(tmp_path: Path) -> None:
    flow = read_flow(written(tmp_path, FILE))()
    assert isinstance(flow, ControllerExecutorFlow)
    spec = flow.offered()["run_shell"]
    assert spec.runs_shell and spec.description == "A shell with Python 3.13."
    assert spec.function == ShellIn(
        Container(
            "python:3.13-slim", "podman", memory="2g", cpus=2, environment={"PIP_NO_INDEX": "1"}
        )
    )
    assert list(spec.schema()["parameters"]["properties"]) == ["command_line", "seconds"]


def test_a_branching_file_may_have_a_container_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    text = "flow: branching\nsubflows_config:\n  run_shell: {sandbox: {image: a}}\n"
    flow = read_flow(written(tmp_path, text))()
    assert isinstance(flow, BranchingFlow)
    assert flow.branches["run_shell"].function == ShellIn(Container("a"))
    assert flow.missing is not None and "docker is not installed here" in flow.missing


def test_each_fault_is_told_at_its_line(tmp_path: Path) -> None:
    text = (
        FILE.replace("podman", "runc")
        .replace("2g", "much")
        .replace("cpus: 2", "cpu: 2")
        .replace("read_file: {}", "read_file: {sandbox: {image: a}}")
    )
    with pytest.raises(InvalidFlowFile) as caught:
        read_flow(written(tmp_path, text))
    faults = {fault.line: fault.message for fault in caught.value.faults}
    assert sorted(faults) == [11, 12, 13, 15], faults
    assert "docker" in faults[11] and "memory is 'much'; expected a size" in faults[12]
    assert "did you mean 'cpus'?" in faults[13]
    assert faults[15] == "command 'read_file' has no sandbox; only run_shell has one"


def test_a_flow_in_python_has_the_same_keys() -> None:
    def configured(**sandbox: str) -> dict[str, Any]:
        chosen = {"run_shell": {"sandbox": sandbox}}
        return {"subflows_config": {"Executor": {"subflows_config": chosen}}}

    class Boxed(ControllerExecutorFlow):
        runs_shell = True
        commands = (run_shell,)
        flow_config = configured(image="a")

        def decide(self, context: RoundContext) -> Finish:
            return Finish("done")

    assert Boxed().offered()["run_shell"].function == ShellIn(Container("a"))
    with pytest.raises(InvalidFlow, match="memory is 'lots'; expected a size"):
        Boxed(flow_config=configured(image="a", memory="lots"))
