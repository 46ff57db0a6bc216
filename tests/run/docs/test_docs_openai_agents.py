"""docs/guides/openai-agents.md: its agent runs, with a scripted model."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from agents.testing import ScriptedModel, assistant_message, function_call

from perdure import Client, Settings
from perdure.flows.rounds import registry
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/guides/openai-agents.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


def test_the_agent_of_the_page_buys_what_a_person_approves(
    client: Client, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_registry(monkeypatch, "trader", "album")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trader.py").write_text(EXAMPLES["trader.py"], "utf-8")
    monkeypatch.delitem(sys.modules, "trader", raising=False)
    registry.load_modules(["trader"])
    replies = [
        [function_call("price", {"animal": "hen"}, call_id="a")],
        [function_call("buy", {"animal": "hen"}, call_id="b")],
        [assistant_message("I have it.")],
    ]
    sys.modules["trader"].agent.model = ScriptedModel(replies)  # type: ignore[attr-defined]
    with driving(settings) as driver:
        run = client.submit("trader", "buy the cheapest animal")
        driver.play()
        client.resume(run.id, "approve")
        driver.play()
    assert client.get(run.id).answer == "I have it."
    names = [turn["command"]["name"] for turn in client.transcript(run.id)["history"]]
    assert names == ["model", "price", "model.2", "approve", "buy", "model.3"]
