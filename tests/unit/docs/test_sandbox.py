"""The examples of docs/guides/sandbox.md work as printed."""

from __future__ import annotations

import re
from pathlib import Path

from perdure import Container, ControllerExecutorFlow
from perdure.flows.executors.shell import ShellIn
from perdure.flows.loading.load import read_flow
from perdure.flows.rings.config import ContainerConfig
from tests.support.sandbox_guide import BLOCKS, TEXT, names_of, registry_of_its_own

__all__ = ["registry_of_its_own"]


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
