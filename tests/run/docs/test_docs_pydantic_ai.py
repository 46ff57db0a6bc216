"""docs/guides/pydantic-ai.md: its agents run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, RunStatus, Settings
from perdure.flows.rounds import registry
from tests.support.flow_registry import own_registry
from tests.support.round_driver import Driver, driving

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/guides/pydantic-ai.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture
def driver(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    own_registry(monkeypatch, "support", "desk", "album")
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text, "utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    modules = tuple(name.removesuffix(".py") for name in EXAMPLES)
    with driving(settings.model_copy(update={"flow_modules": modules})) as made:
        registry.load_modules(modules)
        yield made


def test_the_agent_answers(client: Client, driver: Driver) -> None:
    run = client.submit("support", "which animal is cheap?")
    driver.play()
    done = client.get(run.id)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, '{"price_of":1}')
    names = [turn["command"]["name"] for turn in client.transcript(run.id)["history"]]
    assert names == ["support.model", "price_of", "support.model.2"]


def test_the_desk_asks_before_it_prints(client: Client, driver: Driver) -> None:
    run = client.submit("desk", "a poem")
    driver.play()
    client.resume(run.id, "yes")
    driver.play()
    assert client.get(run.id).answer == "success (no tool calls)"
