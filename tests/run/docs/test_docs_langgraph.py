"""docs/guides/langgraph.md: its graph runs, and asks a person."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, InvalidInput, RunNotFound, Settings, UnknownFlow
from perdure.flows.rounds import registry
from perdure.langgraph import graph_of
from tests.support.command_line import CommandLine
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving
from tests.support.threaded_server import serving

ROOT = Path(__file__).parents[3]
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
    own_registry(monkeypatch, "trader", "album")
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
    own_registry(monkeypatch, "trader", "album")
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


def test_the_command_of_the_page_lists_the_checkpoints(
    client: Client, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_registry(monkeypatch, "trader", "album")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trader.py").write_text(EXAMPLES["trader.py"], "utf-8")
    monkeypatch.delitem(sys.modules, "trader", raising=False)
    registry.load_modules(["trader"])
    with driving(settings) as driver:
        run = client.submit("trader", "buy the cheapest animal")
        driver.play()
        client.resume(run.id, "no")
        driver.play()
    perdure = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES="trader")
    rows = [line.split("\t") for line in perdure("history", run.id[:6]).out.splitlines()]
    [page] = re.findall(r"\$ perdure history RUN\n(.*?)```", TEXT, re.DOTALL)
    heads, *shown = page.splitlines()
    assert heads.split() == ["step", "next", "source", "at", "checkpoint"]
    without_times = [[step, following, source] for step, following, source, _, _ in rows]
    assert [" ".join(row).split() for row in without_times] == [line.split()[:-3] for line in shown]
    graph = graph_of(client, run.id)
    states = list(graph.get_state_history(graph.config))
    with serving(settings) as url:
        documents = [
            perdure("history", run.id, "--json").json,
            perdure("history", run.id, "--json", "--url", url).json,
        ]
    assert documents[0] == documents[1]
    assert documents[0] == [
        {
            "step": state.metadata and state.metadata["step"],
            "checkpoint": state.config["configurable"]["checkpoint_id"],
            "parent": state.parent_config and state.parent_config["configurable"]["checkpoint_id"],
            "source": state.metadata and state.metadata["source"],
            "next": list(state.next),
            "at": state.created_at,
        }
        for state in states
    ]
    assert perdure("history", run.id, "--limit", "2", "--json").json == documents[0][:2]


def test_a_run_without_checkpoints_is_refused_by_the_command(
    client: Client, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = client.submit("countdown", "no graph")
    perdure = CommandLine(tmp_path, settings)
    done = perdure("history", other.id)
    assert done.code == InvalidInput.exit_code and "is not a graph of register_graph" in done.err
    assert f"perdure show {other.id} --transcript" in done.err
    assert perdure("history", "nosuch").code == RunNotFound.exit_code
    own_registry(monkeypatch, "trader", "album")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trader.py").write_text(EXAMPLES["trader.py"], "utf-8")
    monkeypatch.delitem(sys.modules, "trader", raising=False)
    registry.load_modules(["trader"])
    run = client.submit("trader", "buy the cheapest animal")
    done = perdure("history", run.id)
    assert done.code == UnknownFlow.exit_code and "PERDURE_FLOW_MODULES" in done.err
