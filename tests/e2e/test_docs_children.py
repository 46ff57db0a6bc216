"""docs/guides/children.md: its flow is played, its test passes, its commands can be given."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure import Client, RunStatus, Settings
from perdure.worker.cli.main import perdure
from tests.support.driving import driving
from tests.support.own_registry import own_registry

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/guides/children.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))

MODULES = ("imports", "scouting", "research")


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    own_registry(monkeypatch)
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return settings.model_copy(update={"flow_modules": MODULES})


def test_the_import_answers_with_its_counts(client: Client, settings: Settings) -> None:
    items = [*range(499), "broken"]
    run = client.submit("import_all", "the catalogue", {"items": items})
    with driving(settings) as driver:
        played = driver.play(5_000)
    done = client.get(run.id)
    assert done.status is RunStatus.COMPLETED
    assert done.answer["imported"] == 499
    assert done.answer["failed"] == ["broken"]
    assert len(played) == 502, "the parent plays two rounds, each child one"


def test_the_scouts_are_joined(client: Client, settings: Settings) -> None:
    run = client.submit("scouting", "a bridge")
    with driving(settings) as driver:
        driver.play()
    assert client.get(run.id).answer == {"plan": "a plan for a bridge", "found": ["a", "b"]}


def test_the_tree_is_listed(client: Client, settings: Settings) -> None:
    run = client.submit("import_all", "the catalogue", {"items": [1, 2]})
    with driving(settings) as driver:
        message = driver.take()
        assert message is not None
        driver.engine.rounds.run(*message)
    told = CliRunner().invoke(
        perdure,
        ["tree", run.id],
        env={"PERDURE_REDIS_URL": settings.redis_url, "PERDURE_PREFIX": settings.prefix},
    )
    lines = [line.split("\t") for line in told.output.splitlines()]
    assert [(status, flow, goal) for _, status, flow, _, goal in lines] == [
        ("running", "import_all", "the catalogue"),
        ("queued", "import_one", "Import 1"),
        ("queued", "import_one", "Import 2"),
    ]
    assert [len(run_id) - len(run_id.lstrip()) for run_id, *_ in lines] == [0, 2, 2]
    assert client.why(run.id).code.value == "waiting-for-children"


def test_the_test_of_the_node_passes(tmp_path: Path, settings: Settings) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_imports.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
