"""Commands that are flows: their description for a model, and the options they take."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import BadReply, ChildFailed, Ended, InvalidFlow, RoundContext, flow_command
from perdure.flows.rings.branching_flow import BranchingFlow, told
from perdure.flows.rounds.waits import Mailbox, Parked
from tests.support.example_flows import agents  # noqa: F401  registers the flow scout


def test_a_model_is_shown_the_goal_and_the_inputs_of_the_flow_with_their_types() -> None:
    shown = flow_command("research", flow="scout", description="Find out.").schema()
    assert (shown["name"], shown["description"]) == ("research", "Find out.")
    parameters = shown["parameters"]
    assert list(parameters["properties"]) == ["goal", "depth", "how", "sources"]
    assert parameters["properties"]["goal"]["type"] == "string"
    depth = parameters["properties"]["depth"]
    assert (depth["type"], depth["minimum"], depth["description"]) == (
        "integer",
        1,
        "How deep to look.",
    )
    assert parameters["properties"]["sources"]["items"] == {"$ref": "#/$defs/Source"}
    assert parameters["$defs"]["Source"]["properties"]["url"]["type"] == "string"
    assert (parameters["required"], parameters["additionalProperties"]) == (["goal"], False)
    assert "title" not in parameters and "description" not in parameters


def test_without_a_description_the_command_has_that_of_its_flow() -> None:
    assert flow_command("research", flow="scout").schema()["description"] == "Finds something out."


def test_a_flow_without_declared_inputs_takes_a_goal_alone() -> None:
    command = flow_command("deeper", flow="coded-chief")
    assert list(command.schema()["parameters"]["properties"]) == ["goal"]
    with pytest.raises(BadReply, match=r"how\. It takes: goal"):
        command.check({"goal": "x", "how": "ask"})


def test_a_flow_that_only_other_workers_have_takes_any_inputs() -> None:
    command = flow_command("far", flow="no-such-flow-here")
    assert command.schema()["parameters"]["additionalProperties"] is True
    assert command.check({"goal": "x", "a": 1}) == {"goal": "x", "inputs": {"a": 1}}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"flow": "no flow"}, "'no flow' is not a name"),
        ({"flow": 7}, "7 is not a name"),
        ({"name": "a b"}, "'a b' is not a name"),
        ({"budgets": {"tokns": 1}}, "unknown budget 'tokns'"),
        ({"deadline": 0}, "deadline is 0"),
        ({"deadline": "soon"}, "'soon' is not a duration"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"on_failure": "wait"}, "on_failure is 'wait'; expected tell or hold"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"approval": "sometimes"}, "approval is 'sometimes'"),
    ],
)
def test_an_option_that_is_not_valid_is_named(options: dict[str, Any], told: str) -> None:
    options = {"name": "research", "flow": "scout", **options}
    with pytest.raises(InvalidFlow, match=told):
        flow_command(options.pop("name"), **options)


def test_the_child_gets_the_options_of_the_command() -> None:
    flow = BranchingFlow(
        [flow_command("research", flow="scout", budgets={"tokens": 5}, deadline="10m")],
        tell_errors=True,
    )
    mailbox, wanted = Mailbox(), []
    mailbox.planned = lambda children: tuple(map(str, wanted.extend(children) or ()))  # type: ignore[method-assign, func-returns-value]
    with pytest.raises(Parked):
        flow(
            {"branch": "research", "branch_input_data": {"goal": "why", "depth": 2}},
            RoundContext("g", mailbox=mailbox),
        )
    (child,) = wanted
    assert (child.flow, child.goal, dict(child.inputs)) == ("scout", "why", {"depth": 2})
    assert (child.budgets, child.deadline, child.max_rounds) == ({"tokens": 5}, 600.0, None)


def test_a_controller_reads_nothing_of_the_commands_that_mend_a_child() -> None:
    error = ChildFailed.of(Ended(0, "r1", "scout", "errored", error="nothing"))
    assert "perdure retry r1" in str(error)
    assert told(error) == {
        "error": "ChildFailed: child run r1 (flow scout) errored: nothing",
        "run": "r1",
    }
