"""The examples of docs/guides/children.md, as files and registered flows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from perdure import Settings
from perdure.flows.commands.controller import registered_controllers
from perdure.flows.core.names import registered_nodes
from perdure.flows.loading import sources
from perdure.flows.loading.directories import Directories
from perdure.flows.rounds.registry import load_modules
from tests.support.flow_registry import own_registry

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/guides/children.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))
MODULES = ("imports", "scouting", "counting", "newsroom", "research")


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, text in EXAMPLES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    own_registry(monkeypatch)
    monkeypatch.setattr(sources, "_directories", Directories())
    for things in (registered_nodes, registered_controllers):
        monkeypatch.setattr(things, "_things", dict(things._things))
    for module in MODULES:
        monkeypatch.delitem(sys.modules, module, raising=False)
    load_modules(MODULES)
    sources.add_directory(tmp_path / "config/flows")
    return settings.model_copy(update={"flow_modules": MODULES})
