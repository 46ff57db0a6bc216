"""docs/guides/typed.md: its flows are played, and its tests pass; so do the FakeModel tests in
testing.md.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Command, Finish, RunStatus, Settings
from perdure.flows.loading import sources
from perdure.flows.rounds import registry
from perdure.testing import FakeMessage, FakeModel, Lab
from tests.support.flow_registry import own_registry
from tests.support.redis_servers import CrashableServer
from tests.support.round_driver import Driver, driving

GUIDES = Path(__file__).parents[3] / "docs/guides"
FENCED = re.compile(r"```\w+\n# (\S+)\n(.*?)```", re.DOTALL)
EXAMPLES = dict(FENCED.findall((GUIDES / "typed.md").read_text("utf-8")))
EXAMPLES |= {
    name: text
    for name, text in FENCED.findall((GUIDES / "testing.md").read_text("utf-8"))
    if "flights" in name
}
MODULES = [Path(name).stem for name in EXAMPLES if name.endswith(".py")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    own_registry(monkeypatch, "lawyer", "refunds", "balances", "flights", "refund_clerk")
    for name, text in EXAMPLES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for module in MODULES:
        sys.modules.pop(module, None)


@pytest.fixture
def lab(server: CrashableServer) -> Iterator[Lab]:
    with Lab(server.url) as made:
        yield made


@pytest.fixture
def driver(settings: Settings, project: Path) -> Iterator[Driver]:
    registry.load_modules(["refunds", "balances"])
    sources.register_file(project / "config/flows/refund_clerk.yaml")
    with driving(settings) as made:
        yield made


def reply(
    messages: Sequence[FakeMessage], commands: Sequence[Mapping[str, Any]]
) -> str | Command | Finish:
    """Return a model's reply as an agent that refunds, and as its lawyer."""
    if "pay" not in [each["name"] for each in commands]:
        return Finish(True)
    results = [message for message in messages if message.role == "tool"]
    match len(results):
        case 0:
            return Command("price", {"order": "4711"})
        case 1:
            return Command("ask_lawyer", {"goal": "Has the camel to walk?"})
        case 2:
            return Command("pay", {"order": "4711", "euros": float(results[0].text)})
        case 3 if messages[-1].role == "tool":
            return "It is paid."
    return Finish({"order": "4711", "euros": 12.5})


def test_the_agent_asks_its_lawyer_a_person_and_answers_with_its_type(
    client: Client, driver: Driver
) -> None:
    asking: Any = importlib.import_module("ask_for_refund")
    refunds: Any = importlib.import_module("refunds")
    with FakeModel(reply) as model:
        run = asking.ask_for_refund(client)
        driver.play()
        driver.sweep_and_play()
        assert client.get(run.id).status is RunStatus.INTERRUPTED
        client.resume(run.id, "approve")
        driver.play()
        assert asking.refund_of(client, run) == refunds.Refund(order="4711", euros=12.5)
    assert client.result(run, 1) == refunds.Refund(order="4711", euros=12.5)
    [lawyer] = client.children(run.id)
    assert client.result(lawyer, 1) is True
    finish = model.requests[0].commands[-1]
    assert finish["parameters"]["properties"]["answer"]["title"] == "Refund"


def test_the_agent_can_be_tried_without_a_provider(
    settings: Settings, driver: Driver, project: Path
) -> None:
    registry.load_modules(["refund_model"])
    with driving(settings.model_copy(update={"model": "fake:refund"})) as trying:
        run = trying.client.submit("refunds", "The camel of order 4711 does not walk.")
        trying.play()
        trying.sweep_and_play()
        assert trying.client.get(run.id).status is RunStatus.INTERRUPTED
        trying.client.resume(run.id, "approve")
        trying.play()
        ended = trying.client.get(run.id)
    assert (ended.status, ended.answer) == (RunStatus.COMPLETED, {"order": "4711", "euros": 12.5})


def test_the_agent_is_as_short_as_it_looks() -> None:
    lines = [line for line in EXAMPLES["refunds.py"].splitlines() if line.strip()]
    assert len(lines) <= 30


def test_the_flow_in_yaml_has_the_answer_that_it_describes(client: Client, driver: Driver) -> None:
    run = client.submit("refund_clerk", "x")
    driver.play()
    assert client.get(run.id).answer == {"order": "4711", "euros": 12.0, "note": None}
    assert client.result(run, 1).euros == 12


def test_the_cases_of_an_evaluation_are_runs(client: Client, driver: Driver) -> None:
    registry.load_modules(["flights"])
    evaluation: Any = importlib.import_module("evaluate_flights")

    def choose(messages: Sequence[FakeMessage], commands: Sequence[Mapping[str, Any]]) -> Finish:
        return Finish(messages[1].text.partition(" ")[0])  # the first city that the goal names

    with FakeModel(choose):
        runs = evaluation.begin(client, "first-city")
        driver.play()
    assert evaluation.share_of_right_answers(client, runs) == 0.5
    assert [run.id for run in evaluation.begin(client, "first-city")] == [run.id for run in runs]
    found = client.runs(labels={"eval": "first-city"})
    assert {run.id for run in found} == {run.id for run in runs}


def test_the_bank_is_opened_once_and_closed(client: Client, driver: Driver) -> None:
    balances: Any = importlib.import_module("balances")
    runs = [client.submit("balances", name) for name in ("ann", "bob")]
    driver.play()
    assert [client.result(run, 1) for run in runs] == [12, 12]
    bank = balances.bank.open()
    assert bank.asked == ["ann", "bob"] and bank.is_open
    balances.bank.close()
    assert not bank.is_open


def test_the_tests_of_the_guides_pass(project: Path, lab: Lab) -> None:
    tests: Any = importlib.import_module("test_balances")
    tests.test_the_flow(lab)
    tests.test_one_command()
    flights: Any = importlib.import_module("test_flights")
    flights.test_the_cheapest_is_found(lab)
    flights.test_a_function_decides(lab)
