"""CircularFlow: the ring, its state, and every way out of it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    Advance,
    BranchingFlow,
    CircularFlow,
    Command,
    FatalError,
    Finish,
    Interrupt,
    InvalidFlow,
    Node,
    RoundContext,
    UnstorableValue,
    human_feedback,
    interface,
)
from tests.support.flow_player import play_through


def step(**output: Any) -> Any:
    return lambda given, context: output


def exit_now(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
    return {"EARLY_EXIT": True, "answer": given.get("n"), "status": "finished"}


def count(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
    return {"n": given.get("n", 0) + 1}


def test_the_ring_goes_round_in_order_until_max_rounds_passes_are_over() -> None:
    played = play_through(
        CircularFlow(
            topology=[Node("A", count), Node("B", step(b=1)), Node("C", step(c=1))], max_rounds=2
        )
    )
    assert played.nodes == ["A", "B", "C", "A", "B", "C"]
    assert played.end is not None
    assert played.end.output == {"status": "unfinished"}
    assert played.values["n"] == 2


def test_only_the_last_node_of_the_ring_ends_a_cycle() -> None:
    played = play_through(
        CircularFlow(topology=[Node("A", step()), Node("B", step())], max_rounds=1)
    )
    assert [outcome.ends_cycle for _, outcome in played.rounds] == [False, True]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_early_exit_is_looked_at_after_every_node(place: int) -> None:
    nodes = [Node(name, exit_now if i == place else step(n=7)) for i, name in enumerate("ABC")]
    played = play_through(CircularFlow(topology=nodes))
    assert played.nodes == list("ABC")[: place + 1]
    assert played.end is not None
    assert played.end.answer == (7 if place else None)
    assert played.end.output == {"answer": played.end.answer, "status": "finished"}


def test_the_early_exit_key_and_output_keys_can_be_chosen() -> None:
    played = play_through(
        CircularFlow(
            topology=[Node("A", step(done=1, x=2, answer=3))],
            early_exit_key="done",
            output_keys=["x"],
        )
    )
    assert played.end is not None
    assert (played.end.answer, played.end.output) == (3, {"x": 2})


def test_a_false_early_exit_goes_on() -> None:
    played = play_through(
        CircularFlow(topology=[Node("A", step(EARLY_EXIT=False)), Node("B", exit_now)])
    )
    assert played.nodes == ["A", "B"]


def test_an_early_exit_of_an_earlier_round_ends_nothing() -> None:
    flow = CircularFlow(topology=[Node("A", step(x=1)), Node("B", step())])
    assert isinstance(
        flow.play("A", RoundContext("g", committed={"EARLY_EXIT": True, "answer": "stale"})),
        Advance,
    )


def test_an_interface_passes_over_names_that_are_not_there_yet() -> None:
    seen = []
    keys = {"rename": {"observation": "last", "goal": "aim"}, "select": ["last", "aim", "other"]}
    CircularFlow(
        topology=[Node("A", lambda given, context: seen.append(given) or {}, input_interface=keys)]
    ).play("A", RoundContext("g"))
    assert seen == [{"aim": "g"}]


def test_a_node_sees_inputs_goal_and_values_and_not_the_flows_own() -> None:
    seen = []
    flow = CircularFlow(
        topology=[Node("A", lambda given, context: seen.append(given) or {}, goal="look")]
    )
    flow.play("A", RoundContext("the goal", {"x": 1, "y": 1}, committed={"y": 2, "_own": 3}))
    assert seen == [{"x": 1, "y": 2, "goal": "the goal", "node_goal": "look"}]


def test_interfaces_stand_before_and_after_a_node() -> None:
    @interface("test_circular.upper")
    def upper(data: dict[str, Any]) -> dict[str, Any]:
        return {name: value.upper() for name, value in data.items()}

    node = Node(
        "A",
        lambda given, context: {"out": given["in"], "junk": ""},
        input_interface={"rename": {"goal": "in"}, "select": ["in"]},
    )
    shouting = Node(
        "B", lambda given, context: {"out": given["out"]}, output_interface="test_circular.upper"
    )
    played = play_through(
        CircularFlow(
            topology=[node, shouting, Node("C", lambda given, context: Finish(given["out"]))]
        ),
        goal="hello",
    )
    assert played.end is not None
    assert played.end.answer == "HELLO"


def test_an_unknown_interface_is_refused_naming_the_nearest() -> None:
    with pytest.raises(InvalidFlow, match="did you mean 'command_to_branch'"):
        CircularFlow(topology=[Node("A", step(), input_interface="comand_to_branch")])
    with pytest.raises(InvalidFlow, match="did you mean 'rename'"):
        CircularFlow(topology=[Node("A", step(), input_interface={"renam": {}})])


def test_a_node_that_resets_sees_no_history_and_remembers_nothing() -> None:
    def visit(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        found = {"turns": len(context.history), "kept": context.values.get("mine")}
        context.remember("mine", "kept")
        return found

    from perdure import Turn

    context = RoundContext("g", history=[Turn(None, 1)])
    clean = CircularFlow(topology=[Node("A", visit, reset=True)]).play("A", context)
    assert clean.values == {"turns": 0, "kept": None}
    assert context.remembered == {}
    plain = CircularFlow(topology=[Node("A", visit)]).play("A", context)
    assert plain.values == {"turns": 1, "kept": None, "mine": "kept"}


def test_what_a_node_remembers_goes_with_the_round() -> None:
    played = play_through(
        CircularFlow(
            topology=[
                Node("A", lambda g, context: context.remember("m", [1]) or {}),
                Node("B", lambda g, c: Finish(g["m"])),
            ]
        )
    )
    assert played.end is not None
    assert played.end.answer == [1]


def test_an_interrupt_is_handed_on_and_the_node_runs_again_with_the_answer() -> None:
    def ask(given: dict[str, Any], context: RoundContext) -> Any:
        return (
            Finish(context.answer)
            if context.answered
            else Interrupt("well?", data={"n": 1}, deadline=5, default="no")
        )

    played = play_through(CircularFlow(topology=[Node("Ask", ask)]), answers=[None])
    assert played.rounds[0][1] == Interrupt("well?", data={"n": 1}, deadline=5, default="no")
    assert played.nodes == ["Ask", "Ask"]
    assert played.end is not None and played.end.answer is None


def test_a_coroutine_function_plays_a_node() -> None:
    async def later(given: dict[str, Any], context: RoundContext) -> Finish:
        return Finish(given["goal"])

    played = play_through(CircularFlow(topology=[Node("A", later)]), goal="async")
    assert played.end is not None and played.end.answer == "async"


def test_a_method_of_the_ring_plays_a_node_by_its_name() -> None:
    class Ring(CircularFlow):
        topology = (Node("A", "first"),)

        def first(self, given: dict[str, Any], context: RoundContext) -> Finish:
            return Finish(type(self).__name__)

    played = play_through(Ring)
    assert played.end is not None and played.end.answer == "Ring"


def test_a_command_becomes_one_value_with_its_arguments_and_a_branching_flow_carries_it_out() -> (
    None
):
    def double(n: int) -> int:
        return 2 * n

    branches = Node(
        "Do",
        BranchingFlow([double]),
        input_interface="command_to_branch",
        output_interface="branch_to_observation",
    )
    decide = Node("Decide", lambda given, context: Command("double", {"n": 4}))
    played = play_through(
        CircularFlow(
            topology=[
                decide,
                branches,
                Node("End", lambda given, context: Finish(given["observation"])),
            ]
        )
    )
    assert played.end is not None and played.end.answer == 8


def test_what_a_node_may_not_return_is_a_clear_error() -> None:
    for returned, words in [
        (5, "returned a int; expected"),
        ({"_own": 1}, "_own"),
        (None, "returned a NoneType"),
    ]:
        with pytest.raises(FatalError, match=words):
            CircularFlow(topology=[Node("A", lambda given, context, r=returned: r)]).play(
                "A", RoundContext("g")
            )
    with pytest.raises(UnstorableValue, match="what node A returned at x"):
        CircularFlow(topology=[Node("A", step(x=float("nan")))]).play("A", RoundContext("g"))


def test_a_node_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(FatalError, match="did you mean 'Plan'"):
        CircularFlow(topology=[Node("Plan", step())]).play("Plann", RoundContext("g"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"topology": []}, "no nodes"),
        ({"topology": [Node("A", step()), Node("A", step())]}, "two nodes named 'A'"),
        ({"topology": [Node("a b", step())]}, "node named 'a b'"),
        ({"topology": [Node("A", "missing")]}, "played by 'missing'"),
        ({"topology": [Node("A", step(), role="boss")]}, "role 'boss'"),
        ({"max_rounds": 0}, "max_rounds is 0"),
        ({"max_rounds": -1}, "max_rounds is -1"),
        ({"max_rounds": True}, "max_rounds is True"),
        ({"max_rounds": 1.5}, "max_rounds is 1.5"),
        ({"interrupt_before": ["B"]}, "interrupt_before names the unknown node 'B'"),
        ({"interrupt_after": "A"}, "interrupt_after is the text 'A'"),
        ({"early_exit_key": ""}, "early_exit_key is ''"),
        ({"lease_seconds": 0}, "lease_seconds is 0"),
        ({"round_timeout_seconds": float("nan")}, "round_timeout_seconds is nan"),
        ({"max_round": 3}, "did you mean 'max_rounds'"),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidFlow, match=words):
        CircularFlow(**{"topology": [Node("A", step())], **settings})


def test_no_max_rounds_is_no_limit() -> None:
    def until_fifty(given: dict[str, Any], context: RoundContext) -> Any:
        return Finish(50) if given.get("n") == 50 else count(given, context)

    flow = CircularFlow(topology=[Node("A", until_fifty)], max_rounds=None)
    assert len(play_through(flow).rounds) == 51


def test_human_feedback_lets_the_run_go_on_or_leaves_it() -> None:
    ring = CircularFlow(
        topology=[
            Node("Act", step(observation="seen")),
            Node("HumanFeedback", human_feedback),
            Node("End", lambda g, c: Finish(g["human_feedback"])),
        ]
    )
    assert play_through(ring, answers=["fine"]).end.answer == "fine"  # type: ignore[union-attr]
    left = play_through(ring, answers=[" Q"])
    assert left.rounds[1][1].data == {"observation": "seen"}  # type: ignore[union-attr]
    assert left.end is not None and left.end.output["status"] == "unfinished"
