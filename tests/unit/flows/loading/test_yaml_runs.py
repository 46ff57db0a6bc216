"""Flows written in YAML that start other flows, as nodes of a ring and as commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import ControllerExecutorFlow, Ended, FatalError, Mailbox, Parked, RoundContext, make
from perdure.flows.loading import sources
from perdure.flows.loading import started_flows as starts
from perdure.flows.loading.directories import Directories
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.rounds import registry
from perdure.flows.rounds.children import Child
from tests.support.example_flows import agents, yaml_flow_parts  # noqa: F401  the files name them

RING = "flow: circular\ninputs: {urls: {type: array}, topic: {}}\ntopology:\n"
AGENT = """\
flow: controller_executor
controller: doubling
subflows_config:
  Controller: {limit: 4}
  Executor:
    subflows_config:
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    registry.registered()
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(sources, "_directories", Directories())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(folder: Path, text: str, name: str = "mine") -> list[tuple[int, str, str]]:
    """Return the faults by ``perdure flows check`` of a file: lines, keys and words."""
    path = folder / f"{name}.yaml"
    path.write_text(text)
    try:
        written = sources.register_file(path)
        found = starts.faults_of(written.name, written.starts)
    except InvalidFlowFile as error:
        found = list(error.faults)
    return [(fault.line, fault.key, fault.message) for fault in found]


@pytest.mark.parametrize(
    ("text", "line", "key", "told"),
    [
        (RING + "- {name: A, run: {flow: scot}}\n", 4, "topology[0].run.flow", "no flow is named 'scot'; did you mean 'scout'?"),
        (RING + "- {name: A, run: {flow: scout, for_each: url}}\n", 4, "topology[0].run.for_each", "did you mean 'urls'? Known: goal, topic, urls; expected an input under inputs, or the output of an earlier node"),
        (RING + "- {name: A, run: {flow: scout, goal: 'About {topc}'}}\n", 4, "topology[0].run.goal", "no value is named 'topc'; did you mean 'topic'?"),
        (RING + "- {name: A, run: {flow: scout, inputs: {depth: ['{itm}']}, for_each: urls}}\n", 4, "topology[0].run.inputs", "no value is named 'itm'; did you mean 'item'?"),
        (RING + "- {name: A, run: {flow: scout, for_each: urls, wait: some}}\n", 4, "topology[0].run.wait", "'all', 'settled', 'any' or 'first'"),
        (RING + "- {name: A, run: {flow: scout, for_each: urls, wait: 0}}\n", 4, "topology[0].run.wait", "greater than or equal to 1"),
        (RING + "- {name: A, run: {flow: scout, wait: any}}\n", 4, "topology[0].run", "only a run with the key for_each can have wait"),
        (RING + "- {name: A, run: {flow: scout}, flow: test.count}\n", 4, "topology[0].run", "a node has one of flow, run, sleep, until, wait_for; this one has flow already"),
        (RING + "- {name: A, run: {flows: scout}}\n", 4, "topology[0].run.flows", "unknown key; did you mean 'flow'?"),
        (RING + "- {name: A, run: {flow: scout, on_failure: wait}}\n", 4, "topology[0].run.on_failure", "'tell' or 'hold'"),
        (RING + "- {name: A, run: {goal: x}}\n", 4, "topology[0].run.flow", "this key is missing"),
        (RING + "- {name: A, run: {flow: scout, budgets: {tokns: 3}}}\n", 4, "topology[0].run.budgets", "unknown budget 'tokns'"),
        (RING + "- {name: A, run: {flow: mine}}\n", 4, "topology[0].run.flow", "the flow leads to nothing but itself: mine -> mine"),
        (AGENT + "      test.double: {}\nparallel_calls: 2\ntopology: [{name: Controller}, {name: Executor}, {name: A, flow: test.count}]\n", 8, "parallel_calls", "node A follows the Executor"),
        (AGENT + "      test.double: {}\nparallel_calls: 0\n", 8, "parallel_calls", "greater than or equal to 1"),
        (AGENT + "      research: {flow: scot}\n", 7, "subflows_config.Executor.subflows_config.research.flow", "did you mean 'scout'?"),
        (AGENT + "      research: {flow: mine}\n", 7, "subflows_config.Executor.subflows_config.research.flow", "the flow leads to nothing but itself: mine -> mine"),
        (AGENT + "      test.double: {deadline: 3}\n", 7, "subflows_config.Executor.subflows_config.test.double", "only a command with the key flow can have deadline"),
        (AGENT + "      research: {flow: scout, in_doubt: retry}\n", 7, "subflows_config.Executor.subflows_config.research", "the command is idempotent"),
        (AGENT + "      research: {flow: scout, budgets: {tokns: 3}}\n", 7, "subflows_config.Executor.subflows_config.research", "unknown budget 'tokns'"),
        (AGENT + "      research: {flow: scout, deadline: 0}\n", 7, "subflows_config.Executor.subflows_config.research.deadline", "greater than 0"),
    ],
)  # fmt: skip
def test_a_fault_is_told_at_its_line(
    folder: Path, text: str, line: int, key: str, told: str
) -> None:
    ((at, where, words),) = check(folder, text)
    assert (at, where) == (line, key)
    assert told in words


@pytest.mark.parametrize(
    "text",
    [
        RING + "- {name: A, run: {flow: scout, for_each: urls, goal: 'Read {item} of {topic}', wait: 2}}\n",
        RING + "- {name: A, run: {flow: scout, into: found}}\n- {name: B, run: {flow: scout, for_each: found}}\n",
        RING + "- {name: A, flow: test.count}\n- {name: B, run: {flow: scout, for_each: counted}}\n",
        RING + "- {name: A, run: {flow: scout, goal: 'as {{is}}, or as {\"json\": 1}'}}\n",
        RING + "- {name: A, run: {flow: mine, for_each: urls}}\n",
        AGENT + "      research: {flow: mine}\n      test.double: {}\n",
        AGENT + "      research: {flow: mine}\n      look: {flow: scout}\n",
    ],
)  # fmt: skip
def test_what_can_be_is_no_fault(folder: Path, text: str) -> None:
    assert check(folder, text) == []


def test_flows_that_lead_to_each_other_only_are_told(folder: Path) -> None:
    check(folder, AGENT + "      ask: {flow: two}\n", "one")
    ((_, _, told),) = check(folder, AGENT + "      ask: {flow: one}\n", "two")
    assert "two -> one -> two" in told


def test_a_command_in_a_file_is_the_flow_with_its_options(folder: Path) -> None:
    command = (
        "      research: {flow: scout, description: Find out., budgets: {tokens: 20000}, "
        "deadline: 10m, max_rounds: 3, max_concurrency: 2, approval: always, on_failure: hold}\n"
    )
    assert check(folder, AGENT + command) == []
    flow = make("mine")
    assert isinstance(flow, ControllerExecutorFlow)
    spec = flow.offered()["research"]
    assert (spec.function.flow, dict(spec.function.options)) == (  # type: ignore[attr-defined]
        "scout",
        {"budgets": {"tokens": 20000}, "deadline": 600.0, "max_rounds": 3, "on_failure": "hold"},
    )
    assert (spec.description, spec.max_concurrency, spec.approval is None) == (
        "Find out.",
        2,
        False,
    )
    assert spec.schema()["parameters"]["properties"]["depth"]["type"] == "integer"


def test_a_configuration_in_python_may_name_a_flow_as_a_command() -> None:
    executor = {"subflows_config": {"research": {"flow": "scout", "description": "Find out."}}}
    flow = ControllerExecutorFlow(
        controller=agents.Player(), flow_config={"subflows_config": {"Executor": executor}}
    )
    assert flow.offered()["research"].function.flow == "scout"  # type: ignore[attr-defined]


def run_node(folder: Path, keys: str) -> Any:
    assert check(folder, RING + f"- {{name: A, run: {{flow: scout, {keys}}}}}\n") == []
    return make("mine")


def started(flow: Any, **inputs: Any) -> list[Child]:
    """Return the children started by a ring's first node."""
    wanted: list[Child] = []
    mailbox = Mailbox()
    mailbox.planned = lambda children: tuple(map(str, wanted.extend(children) or ()))  # type: ignore[method-assign, func-returns-value]
    with pytest.raises(Parked):
        flow.play("A", RoundContext(goal="all", inputs=inputs, node="A", mailbox=mailbox))
    return wanted


def test_a_text_that_is_only_a_name_becomes_its_value(folder: Path) -> None:
    flow = run_node(
        folder,
        "for_each: urls, goal: 'Read {item} of {topic}', max_rounds: 2, "
        "inputs: {depth: '{item}', sources: [{url: 'at {item}'}], how: '{{item}}'}",
    )
    first, second = started(flow, urls=[1, {"a": True}], topic="t")
    assert (first.goal, dict(first.inputs)) == (
        "Read 1 of t",
        {"depth": 1, "sources": [{"url": "at 1"}], "how": "{item}"},
    )
    assert (second.goal, second.inputs["depth"]) == ('Read {"a":true} of t', {"a": True})
    assert first.max_rounds == 2


def test_without_a_goal_a_child_has_the_run_s_or_its_item(folder: Path) -> None:
    assert [each.goal for each in started(run_node(folder, "into: x"))] == ["all"]
    assert [each.goal for each in started(run_node(folder, "for_each: urls"), urls=["b"])] == ["b"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("into: found", {"found": "a"}),
        ("for_each: urls", {}),
        ("for_each: urls, into: found", {"found": ["a"]}),
        ("for_each: urls, wait: settled, into: found", {"found": [{"place": 0, "run": "r0", "status": "completed", "answer": "a"}]}),
    ],
)  # fmt: skip
def test_the_answers_go_into_the_state(folder: Path, keys: str, expected: dict[str, Any]) -> None:
    mailbox = Mailbox()
    mailbox.let_children_end(Ended(0, "r0", "scout", "completed", answer="a", order=1))
    context = RoundContext(goal="g", inputs={"urls": ["u"]}, node="A", mailbox=mailbox)
    assert run_node(folder, keys).play("A", context).values == expected


@pytest.mark.parametrize(
    ("keys", "inputs", "told"),
    [
        ("for_each: urls", {"urls": "u"}, "for each item of urls, which is 'u'; expected a list"),
        ("goal: '{topic}'", {}, "names {topic}, which the run does not have"),
    ],
)
def test_what_the_run_does_not_have_ends_it(
    folder: Path, keys: str, inputs: dict[str, Any], told: str
) -> None:
    with pytest.raises(FatalError, match=told):
        run_node(folder, keys).play("A", RoundContext(goal="g", inputs=inputs, node="A"))
