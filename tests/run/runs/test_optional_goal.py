"""A submission needs a goal only if its flow does."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure import Client, InvalidInput, RemoteClient, RoundContext, Settings, Steps, workflow
from perdure.flows.rounds import registry
from perdure.worker.domain.fleet import describe
from tests.support.command_line import CommandLine
from tests.support.flow_registry import own_registry
from tests.support.threaded_server import serving
from tests.support.tried_workflows import play_round

FLOWS = """\
from perdure import Steps, workflow


@workflow("goalless_order")
def order(steps: Steps, item: str) -> str:
    return item
"""


@workflow("goalless")
def goalless(steps: Steps, item: str, goal: str = "none") -> str:
    return item


@workflow("goalful")
def goalful(steps: Steps, goal: str) -> str:
    return goal


@workflow("declared_goalful", needs_goal=True)
def declared(steps: Steps) -> str:
    return steps.goal


def test_a_flow_says_whether_it_needs_a_goal() -> None:
    needs = {name: registry.make(name).needs_goal for name in ("goalless", "goalful", "countdown")}
    assert needs == {"goalless": False, "goalful": True, "countdown": True}
    assert describe(registry.make("goalless"))["needs_goal"] is False
    assert "needs_goal" not in describe(registry.make("goalful"))


@pytest.mark.parametrize("flow", ["goalful", "declared_goalful", "countdown"])
def test_a_goal_that_is_needed_is_asked_for(client: Client, flow: str) -> None:
    with pytest.raises(InvalidInput, match=f'{flow} needs a goal.*perdure submit {flow} "GOAL"'):
        client.submit(flow)
    assert client.submit(flow, "").goal == ""  # as given


def test_a_goal_with_a_default_gets_the_goal_of_a_run_that_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_registry(monkeypatch)

    def said(steps: Steps, goal: str | None = "none") -> Any:
        return goal

    def answer(goal: str, inputs: dict[str, Any]) -> Any:
        return play_round(said, RoundContext(goal, inputs=inputs)).answer

    assert answer("for ann", {}) == answer("for ann", {"goal": "none"}) == "for ann"
    assert (answer("", {}), answer("for ann", {"goal": "for bob"})) == ("none", "for bob")


def test_a_default_that_is_no_text_is_an_input_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_registry(monkeypatch)

    def counted(steps: Steps, goal: int = 3) -> int:
        return goal

    assert play_round(counted, RoundContext("7")).answer == 3


def test_a_run_may_have_no_goal(client: Client, settings: Settings) -> None:
    assert client.submit("goalless", inputs={"item": "a book"}).goal == ""
    assert client.submit("goalless", "for ann", {"item": "a book"}).goal == "for ann"
    with serving(settings) as url, closing(RemoteClient(url)) as remote:
        assert remote.submit("goalless", inputs={"item": "a book"}).goal == ""
        with pytest.raises(InvalidInput, match="goalful needs a goal"):
            remote.submit("goalful")


def test_the_form_of_the_dashboard_requires_a_goal_only_if_it_is_needed(
    settings: Settings,
) -> None:
    with serving(settings) as url:
        for flow, attribute in (("goalless", ""), ("goalful", " required")):
            shown = httpx2.get(f"{url}/start?flow={flow}").text
            assert f'<textarea id="goal" name="goal" rows="2"{attribute}>' in shown


def test_goal_is_optional_on_the_command_line(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "goalless_flows.py").write_text(FLOWS)
    perdure = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES="goalless_flows")
    done = perdure("submit", "goalless_order", "--input", "item=a book", "--id", "one", "--json")
    assert (done.code, done.json["goal"], done.json["inputs"]) == (0, "", {"item": "a book"})
    refused = perdure("submit", "countdown", "--input", "rounds=1")
    assert refused.code == 2 and 'perdure submit countdown "GOAL"' in refused.err
    assert "goal" in perdure("flows", "goalless_order").out
