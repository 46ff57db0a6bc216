"""docs/guides/langgraph.md: its graph runs, and asks a person."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Settings
from perdure.flows import registry
from tests.support.driving import driving
from tests.support.own_registry import own_registry

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/guides/langgraph.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


@pytest.mark.parametrize(
    ("answer", "names", "last"),
    [
        ("yes", ["look", "interrupt", "ask", "buy"], "bought one hen"),
        ("no", ["look", "interrupt", "ask"], "answer: no"),
    ],
)
def test_the_graph_of_the_page_buys_what_a_person_approves(
    client: Client,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    names: list[str],
    last: str,
) -> None:
    own_registry(monkeypatch, "trader")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trader.py").write_text(EXAMPLES["trader.py"], "utf-8")
    monkeypatch.delitem(sys.modules, "trader", raising=False)
    registry.load_modules(["trader"])
    with driving(settings) as driver:
        run = client.submit("trader", "buy the cheapest animal")
        driver.play()
        [question] = client.inbox().waiting
        assert question.question == "Buy a hen?"
        client.resume(run.id, answer)
        driver.play()
    assert client.get(run.id).answer["log"][-1] == last
    history = client.transcript(run.id)["history"]
    assert [turn["command"]["name"] for turn in history] == names


def test_the_page_looks_back_at_a_run_and_forks_it(
    client: Client,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own_registry(monkeypatch, "trader")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trader.py").write_text(EXAMPLES["trader.py"], "utf-8")
    monkeypatch.delitem(sys.modules, "trader", raising=False)
    registry.load_modules(["trader"])
    page: dict[str, Any] = {}
    exec(EXAMPLES["look_back.py"].replace("client = Client()", ""), page)
    page["client"] = client
    with driving(settings) as driver:
        run = client.submit("trader", "buy the cheapest animal")
        driver.play()
        client.resume(run.id, "no")
        driver.play()
        page["show"](run.id)
        assert [line.split(" {")[0] for line in capsys.readouterr().out.splitlines()] == [
            "2 ()", "1 ('ask',)", "0 ('look',)", "-1 ('__start__',)",
        ]  # fmt: skip
        other = page["try_a_cow"](run.id)
        driver.play()
        [question] = client.inbox().waiting
        assert (question.run_id, question.question) == (other, "Buy a cow?")
        client.resume(other, "yes")
        driver.play()
    assert client.get(other).answer["log"][-1] == "bought one cow"
    assert client.get(run.id).answer["log"][-1] == "answer: no"


def test_the_page_names_the_limit_of_a_round() -> None:
    assert Settings().max_addition_bytes == 256 * 1024
