"""The behaviours of the flow that this one grew from: matched where they are good, surpassed where
they are not.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import (
    BadReply,
    BranchingFlow,
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    FatalError,
    Finish,
    Interrupt,
    InvalidFlow,
    Node,
    RoundContext,
    ScriptedController,
    human_feedback,
)
from perdure.flows.rings.circular import resolve
from perdure.flows.rings.config import ControllerExecutorConfig
from tests.support.flow_player import play_through

REPLY = {
    "thought": "I need the sum",
    "reasoning": "it was asked for",
    "plan": ["add", "answer"],
    "criticism": "none",
    "speak": "adding",
    "command": "add",
    "command_args": {"a": 1, "b": 2},
}
FINISH = {**REPLY, "command": "finish", "command_args": {"answer": "3"}}


def add(a: int, b: int) -> int:
    return a + b


def scripted(*replies: Any, **settings: Any) -> ControllerExecutorFlow:
    return ControllerExecutorFlow(
        controller=ScriptedController(replies, reads_errors=True), commands=[add], **settings
    )


def test_the_defaults_are_those_of_the_seed() -> None:
    flow = scripted()
    assert (flow.name, flow.max_rounds, flow.early_exit_key) == ("CtrlEx", 30, "EARLY_EXIT")
    assert flow.description.startswith(
        "ControllerExecutor (i.e., MRKL, ReAct) interaction implementation with Flows that approaches"
    )
    assert flow.description.endswith(
        "This is repeated until the controller Flow concludes on an answer."
    )
    assert flow.nodes == {"Controller": "controller", "Executor": "executor"}
    assert (
        flow.finish.description
        == "Signal that the objective has been satisfied, and returns the answer to the user."
    )
    assert flow.finish.input_args == ["answer"]
    assert flow.output_keys == ("answer", "status")
    config = ControllerExecutorConfig()
    assert (config.name, config.max_rounds, config.early_exit_key, config.topology) == (
        "CtrlEx",
        30,
        "EARLY_EXIT",
        "circular",
    )
    assert config.description == flow.description
    assert config.subflows_config.Executor.subflows_config == []


def test_a_configuration_with_every_key_of_the_seed_is_taken() -> None:
    config = {
        "name": "Mine",
        "description": "does it",
        "max_rounds": 4,
        "early_exit_key": "OUT",
        "topology": "circular",
        "subflows_config": {
            "Controller": {"finish": {"description": "Stop.", "input_args": ["answer"]}},
            "Executor": {"subflows_config": {"add": {"description": "Sum."}}},
        },
    }
    flow = scripted(FINISH, flow_config=config)
    assert (flow.name, flow.description, flow.max_rounds, flow.early_exit_key) == (
        "Mine",
        "does it",
        4,
        "OUT",
    )
    assert [schema["description"] for schema in flow.schemas()] == ["Sum.", "Stop."]
    played = play_through(flow)
    assert played.end is not None and played.values["OUT"] is True


def test_a_round_is_one_pass_over_all_nodes() -> None:
    ring = CircularFlow(
        topology=[Node(name, lambda given, context: {}) for name in "ABC"], max_rounds=3
    )
    assert len(play_through(ring).rounds) == 9


def test_the_interfaces_rename_by_registered_name() -> None:
    executor = ControllerExecutorFlow.topology[1]
    assert (executor.input_interface, executor.output_interface) == (
        "command_to_branch",
        "branch_to_observation",
    )
    given = resolve("command_to_branch")({"command": "add", "command_args": {"a": 1}})
    assert (given["branch"], given["branch_input_data"]) == ("add", {"a": 1})
    assert resolve("branch_to_observation")({"branch_output_data": 3}) == {"observation": 3}


def test_a_branching_flow_matches_names_exactly() -> None:
    flow = BranchingFlow([add])
    assert flow({"branch": "add", "branch_input_data": {"a": 1, "b": 1}}, RoundContext("g")) == {
        "branch_output_data": 2
    }
    with pytest.raises(BadReply):
        flow({"branch": "Add", "branch_input_data": {"a": 1, "b": 1}}, RoundContext("g"))


def test_on_finish_the_executor_is_not_called_in_that_round() -> None:
    for end in (Finish("3"), FINISH, Command("finish", {"answer": "3"})):
        played = play_through(scripted(REPLY, end))
        assert played.nodes == ["Controller", "Executor", "Controller"]
        assert played.end is not None
        assert played.end.output == {"answer": "3", "status": "finished"}


def test_maximum_rounds_end_the_run_unfinished_with_the_seeds_words() -> None:
    played = play_through(scripted(*[REPLY] * 5, max_rounds=2))
    assert len(played.turns) == 2
    assert played.end is not None
    assert (
        played.end.answer
        == "The maximum amount of rounds was reached before the model found an answer."
    )
    assert played.end.output == {"answer": played.end.answer, "status": "unfinished"}


def test_every_run_starts_clean() -> None:
    flow = scripted(REPLY, FINISH)
    first, second = play_through(flow), play_through(flow)
    assert first == second
    assert second.nodes == ["Controller", "Executor", "Controller"]


def test_null_arguments_never_run_the_previous_ones() -> None:
    played = play_through(scripted(REPLY, {"command": "add", "command_args": None}, FINISH))
    assert played.observations[0] == 3
    assert "a: Field required" in played.observations[1]["error"]

    def nothing(a: int = 0) -> int:
        return a

    calls = [
        {"command": "nothing", "command_args": {"a": 7}},
        {"command": "nothing", "command_args": None},
        FINISH,
    ]
    played = play_through(
        ControllerExecutorFlow(
            controller=ScriptedController(calls, reads_errors=True), commands=[nothing]
        )
    )
    assert played.observations == [7, 0]


@pytest.mark.parametrize(
    "reply",
    ["no JSON", {"command": "subtract", "command_args": {}}, {"command": "add"}, {"thought": "hm"}],
)
def test_a_reply_that_cannot_be_used_is_told_to_the_controller_a_bounded_number_of_times(
    reply: Any,
) -> None:
    played = play_through(scripted(reply, reply, REPLY, FINISH))
    assert played.end is not None and played.end.answer == "3"
    with pytest.raises(FatalError, match="3 bad replies"):
        play_through(scripted(reply, reply, reply))


def test_a_tools_exception_is_told_to_the_controller() -> None:
    def broken() -> None:
        raise OSError("no network")

    flow = ControllerExecutorFlow(
        controller=ScriptedController([Command("broken"), FINISH], reads_errors=True),
        commands=[broken],
    )
    assert play_through(flow).observations == [{"error": "OSError: no network"}]


def test_max_rounds_null_is_without_limit_and_zero_is_an_error() -> None:
    flow = scripted(*[REPLY] * 60, FINISH, flow_config={"max_rounds": None})
    assert len(play_through(flow).turns) == 60
    for wrong in (0, -1):
        with pytest.raises(InvalidFlow):
            scripted(flow_config={"max_rounds": wrong})
        with pytest.raises(InvalidFlow):
            scripted(max_rounds=wrong)


@pytest.mark.parametrize(
    "form",
    [
        REPLY,
        json.dumps(REPLY),
        f"```json\n{json.dumps(REPLY, indent=1)}\n```",
        f"Here:\n```\n{json.dumps(REPLY)}\n```\nDone.",
    ],
)
def test_the_keys_of_a_reply_are_accepted_and_kept(form: Any) -> None:
    played = play_through(scripted(form, FINISH))
    said = {key: REPLY[key] for key in ("thought", "reasoning", "plan", "criticism", "speak")}
    assert played.turns[0].command == Command("add", {"a": 1, "b": 2}, said)
    assert played.rounds[0][1].summary["thought"] == "I need the sum"  # type: ignore[union-attr]


def test_only_command_and_arguments_are_required() -> None:
    played = play_through(scripted('{"command": "add", "command_args": {"a": 1, "b": 1}}', FINISH))
    assert played.turns[0].command == Command("add", {"a": 1, "b": 1})


def test_fences_inside_arguments_are_left_alone() -> None:
    def echo(text: str) -> str:
        return text

    code = "```py\nx = {}\n```"
    reply = {"command": "echo", "command_args": {"text": code}}
    for form in (json.dumps(reply), f"```json\n{json.dumps(reply)}\n```"):
        flow = ControllerExecutorFlow(
            controller=ScriptedController([form, FINISH]), commands=[echo]
        )
        assert play_through(flow).observations == [code]


def test_human_feedback_is_a_third_node_that_interrupts_and_q_leaves() -> None:
    class Watched(ControllerExecutorFlow):
        topology = (*ControllerExecutorFlow.topology, Node("HumanFeedback", human_feedback))

    played = play_through(
        Watched(controller=ScriptedController([REPLY, REPLY]), commands=[add]),
        answers=["go on", "q"],
    )
    assert sum(isinstance(outcome, Interrupt) for _, outcome in played.rounds) == 2
    assert played.end is not None
    assert played.end.output == {
        "answer": "The user has chosen to exit before a final answer was generated.",
        "status": "unfinished",
    }


def test_a_ring_of_five_nodes_with_memory_before_and_after() -> None:
    def read(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {"recalled": len(given.get("memory", []))}

    def write(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {"memory": [*given.get("memory", []), given["observation"]]}

    class Auto(ControllerExecutorFlow):
        topology = (
            Node("MemoryRead", read),
            *ControllerExecutorFlow.topology,
            Node("HumanFeedback", human_feedback),
            Node("MemoryWrite", write),
        )

    played = play_through(
        Auto(controller=ScriptedController([REPLY, REPLY, FINISH]), commands=[add]),
        answers=["a", "b"],
    )
    assert played.values["memory"] == [3, 3]
    assert played.values["recalled"] == 2
    assert played.end is not None and played.end.output == {"answer": "3", "status": "finished"}
