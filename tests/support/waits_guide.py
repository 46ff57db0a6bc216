"""The examples of docs/guides/waits.md, as files and flow modules."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from perdure import Settings
from tests.support.flow_registry import own_registry

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/guides/waits.md").read_text("utf-8")
FENCED = re.compile(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", re.DOTALL)
#: With the test for the crash lab, which stands with the others of its kind.
EXAMPLES = dict(FENCED.findall((ROOT / "docs/guides/testing.md").read_text("utf-8")))
EXAMPLES = {"test_crashes.py": EXAMPLES["test_crashes.py"], **dict(FENCED.findall(TEXT))}

FLOW_MODULES = ("invoices", "payments", "shop_orders")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the examples as files."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in FLOW_MODULES:  # it registers its flows when it is imported
        monkeypatch.delitem(sys.modules, name, raising=False)
    own_registry(monkeypatch, "order")  # a flow of another test has this name
    return tmp_path


@pytest.fixture
def settings(settings: Settings, project: Path) -> Settings:
    return settings.model_copy(update={"flow_modules": FLOW_MODULES})
