"""Commands on a machine without LangGraph. It hides the package, so it is a process."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from perdure import Client, InvalidFlow, Settings
from perdure.flows.rounds import registry
from tests.support.command_line import ROOT, CommandProcess
from tests.support.flow_registry import own_registry

TEXT = (ROOT / "docs/guides/langgraph.md").read_text("utf-8")
[TRADER] = re.findall(r"```python\n# trader.py\n(.*?)```", TEXT, re.DOTALL)


def test_a_command_that_needs_an_extra_says_how_to_install_it(
    client: Client, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_registry(monkeypatch, "trader")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trader.py").write_text(TRADER, "utf-8")
    registry.load_modules(["trader"])
    run = client.submit("trader", "buy the cheapest animal")
    # A package of this name that cannot be imported stands for a missing one.
    bare = tmp_path / "bare"
    (bare / "langgraph").mkdir(parents=True)
    missing = "raise ModuleNotFoundError(\"No module named 'langgraph'\", name='langgraph')\n"
    (bare / "langgraph" / "__init__.py").write_text(missing, "utf-8")
    perdure = CommandProcess(tmp_path, settings, PYTHONPATH=f"{bare}{os.pathsep}{ROOT}")
    for variables in ({}, {"PERDURE_FLOW_MODULES": "trader"}):
        done = perdure("history", run.id, variables=variables)
        assert done.code == InvalidFlow.exit_code
        assert "pip install 'perdure[langgraph]'" in done.err
