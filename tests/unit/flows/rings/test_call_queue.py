"""Several calls in one reply: each is carried out in a separate round, in order, and each is
answered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure import (
    Advance,
    BadReply,
    Command,
    ControllerExecutorFlow,
    FatalError,
    Finish,
    Interrupt,
    RoundContext,
    ScriptedController,
    Turn,
    command,
)
from perdure.flows.commands.replies import MOST_CALLS
from perdure.flows.core.budgets import Budget
from perdure.flows.rings.call_queue import refuse_finish
from tests.support.flow_player import play_through


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def picky(how: str) -> str:
    """Refuse."""
    raise BadReply(f"not {how}")


class Replies(ScriptedController):
    """One reply after the other; a reply is the turns since its first call."""

    def decide(self, context: Any) -> Any:
        replies = sum(turn.command is None or turn.command.part == 0 for turn in context.history)
        return self.replies[replies]


def flow(*replies: Any, **settings: Any) -> ControllerExecutorFlow:
    return ControllerExecutorFlow(
        controller=Replies(replies, reads_errors=True), commands=[add, picky], **settings
    )


def call(place: int, name: str = "add", **args: Any) -> Command:
    return Command(name, args, call=f"call_{place}", part=place)


def test_each_call_of_a_reply_has_a_round_and_a_turn_of_its_own_in_order() -> None:
    played = play_through(flow([call(0, a=1), call(1, a=2), call(2, a=3)], Finish("done")))
    assert played.nodes == ["Controller", "Executor", "Executor", "Executor", "Controller"]
    assert played.turns == [Turn(call(0, a=1), 1), Turn(call(1, a=2), 2), Turn(call(2, a=3), 3)]
    assert played.end is not None and played.end.answer == "done"


def test_a_call_that_cannot_be_carried_out_is_answered_in_its_place_and_the_others_go_on() -> None:
    reply = [
        call(0, "nothing"),
        call(1, a=1),
        BadReply("no JSON", call(2)),
        call(3, a="x"),
        call(4, a=2),
    ]
    played = play_through(flow(reply, Finish("done")))
    assert [turn.command and turn.command.part for turn in played.turns] == [0, 1, 2, 3, 4]
    assert [
        turn.observation for turn in played.turns if not isinstance(turn.observation, dict)
    ] == [1, 2]
    errors = [
        turn.observation["error"] for turn in played.turns if isinstance(turn.observation, dict)
    ]
    assert [
        "no command is named 'nothing'" in errors[0],
        "no JSON" in errors[1],
        "does not accept" in errors[2],
    ] == [True] * 3
    assert "_bad_replies" not in played.values or played.values["_bad_replies"] == 0


def test_finish_among_the_calls_ends_the_run_after_those_before_it() -> None:
    played = play_through(flow([call(0, a=1), call(1, "finish", answer=7), call(2, a=9)]))
    assert played.nodes == ["Controller", "Executor"]
    assert played.turns == [Turn(call(0, a=1), 1)]
    assert played.end is not None
    assert (played.end.answer, played.end.output) == (7, {"answer": 7, "status": "finished"})


def test_a_reply_of_which_no_call_will_do_is_one_bad_reply_and_every_call_is_answered() -> None:
    played = play_through(flow([call(0, "nothing"), call(1, "nowhere")], Finish("done")))
    assert [turn.command and turn.command.call for turn in played.turns] == ["call_0", "call_1"]
    assert played.values["_bad_replies"] == 0, "forgotten by the good reply"
    with pytest.raises(FatalError, match="2 bad replies"):
        play_through(flow([call(0, "nothing"), call(1, "nowhere")], [], max_bad_replies=2))


def test_a_command_that_refuses_its_call_does_not_leave_the_others_without_an_answer() -> None:
    played = play_through(flow([call(0, "picky", how="so"), call(1, a=5)], Finish("done")))
    assert played.nodes == ["Controller", "Executor", "Executor", "Controller"]
    assert [turn.observation for turn in played.turns] == [{"error": "BadReply: not so"}, 5]


def test_nothing_of_one_reply_is_left_for_the_next() -> None:
    played = play_through(
        flow([call(0, a=1), call(1, a=2)], Command("add", {"a": 3}), Finish("done"))
    )
    assert played.turns[-1] == Turn(Command("add", {"a": 3}), 3)


def test_no_reply_has_more_calls_than_are_taken() -> None:
    played = play_through(
        flow(
            [call(place, a=place) for place in range(MOST_CALLS + 2)],
            Finish("done"),
            max_rounds=200,
        )
    )
    assert len(played.turns) == MOST_CALLS + 2
    assert all("a reply may hold" in turn.observation["error"] for turn in played.turns[-2:])


def test_what_is_no_command_in_a_list_is_answered() -> None:
    played = play_through(flow([Interrupt("?"), call(1, a=1)], Finish("done")))
    assert (
        played.turns[0].command is None
        and "a list of decisions must hold" in played.turns[0].observation["error"]
    )
    assert played.turns[1] == Turn(call(1, a=1), 1)


def test_what_a_call_says_beside_its_arguments_is_kept_with_its_turn() -> None:
    reply = [
        Command("add", {"a": 1}, {"thought": "first"}, "x", 0),
        Command("add", {"a": 2}, {"thought": "second"}, "y", 1),
    ]
    assert [turn.command for turn in play_through(flow(reply, Finish("done"))).turns] == reply


def test_calls_without_ids_and_arguments_are_calls_all_the_same() -> None:
    def ping() -> str:
        return "pong"

    waiting = ControllerExecutorFlow(
        controller=Replies([[Command("ping"), Command("ping", part=1)], Finish("done")]),
        commands=[ping],
    )
    assert play_through(waiting).turns == [
        Turn(Command("ping"), "pong"),
        Turn(Command("ping", part=1), "pong"),
    ]


def test_a_run_without_several_calls_writes_nothing_of_them() -> None:
    played = play_through(flow(Command("add", {"a": 1}), Finish("done")))
    assert not {"_waiting", "_call"} & set(played.values)


def test_one_reply_is_one_cycle_however_many_calls_it_has() -> None:
    played = play_through(
        flow(
            [call(0, a=1), call(1, a=2), call(2, a=3)],
            [call(0, a=4), call(1, a=5)],
            Finish("done"),
            max_rounds=2,
        )
    )
    assert played.observations == [1, 2, 3, 4, 5]
    assert played.end is not None and played.end.output["status"] == "unfinished"


def test_a_reply_of_which_no_call_will_do_says_what_was_wrong_with_the_last_and_nothing_twice() -> (
    None
):
    played = play_through(flow([call(0, "nothing"), call(1, "nowhere")], Finish("done")))
    first, second = (turn.observation["error"] for turn in played.turns)
    assert first.startswith("BadReply: no command is named 'nothing'") and second.startswith(
        "BadReply: no command is named 'nowhere'"
    )
    with pytest.raises(
        FatalError, match=r"run run, step 0: 1 bad replies .*: the reply holds no call"
    ):
        play_through(flow([], max_bad_replies=1))


def test_a_finish_among_calls_keeps_what_its_round_carried_out_and_came_to() -> None:
    def shout() -> str:
        return "a" * 50

    reply = [Command("shout", {}, {}, "x", 0), Command("finish", {"answer": 1}, {}, "y", 1)]
    end = play_through(
        ControllerExecutorFlow(controller=Replies([reply]), commands=[shout], max_result=10)
    ).end
    assert end is not None
    assert (end.values["EARLY_EXIT"], end.values["answer"], end.values["_waiting"]) == (True, 1, [])
    assert end.summary["command"] == "shout" and end.artifacts == {"1-shout": "a" * 50}


def test_a_call_that_is_no_command_any_more_is_answered_and_the_others_of_its_reply_go_on() -> None:
    # Between two rounds a newer version of the flow may be deployed.
    waiting = [{"name": "add", "args": {"a": 1}, "call": "y", "part": 1}]
    committed = {"command": "gone", "command_args": {}, "_call": ["x", 0], "_waiting": waiting}
    refused = flow(Finish("x")).play("Executor", RoundContext("g", committed=committed))
    assert isinstance(refused, Advance)
    assert (refused.node, refused.ends_cycle, refused.values["_bad_replies"]) == (
        "Executor",
        False,
        1,
    )
    assert "no command is named 'gone'" in refused.summary["error"]
    assert [turn.command and turn.command.call for turn in refused.turns] == ["x"]
    assert (refused.values["command"], refused.values["_call"], refused.values["_waiting"]) == (
        "add",
        ["y", 1],
        [],
    )


def test_a_flow_says_what_a_round_will_spend() -> None:
    class Costly(Replies):
        def estimate(self, context: RoundContext) -> dict[str, float]:
            return {"tokens": float(len(context.commands))}

    made = ControllerExecutorFlow(controller=Costly([Finish("done")]), commands=[add, picky])
    assert made.estimate("Controller", RoundContext("g")) == {"tokens": 3.0}, (
        "two commands and finish"
    )
    assert flow(Finish("x")).estimate("Controller", RoundContext("g")) == {}
    limited = RoundContext("g", committed={"command": "add"}, budgets={"commands.add": Budget(2)})
    assert made.estimate("Executor", limited) == {"commands.add": 1.0}
    assert (
        made.estimate(
            "Executor", RoundContext("g", committed={"command": "picky"}, budgets=limited.budgets)
        )
        == {}
    )
    assert made.estimate("Other", limited) == {}


def test_a_controller_is_told_what_there_is_to_choose_from_and_what_its_node_is_for() -> None:
    seen: list[Any] = []

    class Curious(Replies):
        def decide(self, context: RoundContext) -> Any:
            seen.append(
                (
                    [each["name"] for each in context.commands],
                    context.commands[1:][0]["name"],
                    context.node_goal,
                )
            )
            return Finish("done")

    ring = [
        replace(node, goal="Think.") if node.name == "Controller" else node
        for node in ControllerExecutorFlow.topology
    ]
    for topology, goal in ((ring, "Think."), (list(ControllerExecutorFlow.topology), "")):
        play_through(
            ControllerExecutorFlow(controller=Curious([]), commands=[add, picky], topology=topology)
        )
        assert seen.pop() == (["add", "picky", "finish"], "picky", goal)


def boom() -> str:
    """Fail."""
    raise ValueError("the disk is full")


@pytest.mark.parametrize(
    ("failing", "told"),
    [
        (call(0, "boom"), "the call of 'boom' failed"),
        (call(0, "picky", how="so"), "the call of 'picky' failed"),
        (call(0, "add", a="x"), "the call of 'add' cannot be carried out"),
        (call(0, "nothing"), "the call of 'nothing' cannot be carried out"),
        (BadReply("no JSON"), "a call cannot be carried out"),
    ],
)
@pytest.mark.parametrize("max_result", [8, 32_000])
@pytest.mark.parametrize("between", [[], [call(1, a=1)]])
def test_a_finish_behind_a_call_that_did_not_succeed_is_answered_and_ends_nothing(
    failing: Any, told: str, max_result: int, between: list[Command]
) -> None:
    behind = [call(2, "finish", answer="Saved."), call(3, a=9)]
    made = ControllerExecutorFlow(
        controller=Replies([[failing, *between, *behind], Finish("failed")], reads_errors=True),
        commands=[add, picky, boom],
        max_result=max_result,
    )
    played = play_through(made)
    assert played.end is not None and played.end.answer == "failed"
    *_, finish, last = played.turns
    assert finish.command == call(2, "finish", answer="Saved.")
    assert f"the run has not ended, because {told}" in finish.observation["error"]
    assert last.command == call(3, a=9) and "behind finish" in last.observation["error"]
    assert not played.values.get("_waiting")


def test_a_finish_behind_a_refused_call_or_one_in_doubt_is_refused() -> None:
    finish = {"name": "finish", "args": {"answer": 1}}
    for observation, fault in (
        ({"refused": "never!", "by": "ann"}, "was refused"),
        ({"in_doubt": "unknown", "idempotency_key": "k"}, "is in doubt"),
        ({"in_doubt": ""}, "is in doubt"),
        ({"error": {"code": 402, "message": "declined"}}, "failed"),
        ({"error": ["x"]}, "failed"),
        ({"error": True}, "failed"),
        ({"error": "ChildFailed: x", "run": "r"}, "failed"),
    ):
        [refused] = refuse_finish([finish], [Turn(call(0), observation)])
        assert f"the call of 'add' {fault};" in refused["error"]
    results = ({"error": "x", "found": 3}, {}, "error", 3, {"error": None}, {"error": ""})
    for result in (*results, {"error": False}, {"refused": []}, {"in_doubt": 0}):
        assert refuse_finish([finish], [Turn(call(0), result)]) == [finish]


def test_a_finish_behind_a_finish_with_wrong_arguments_ends_the_run() -> None:
    played = play_through(flow([call(0, "finish", wrong=1), call(1, "finish", answer="ok")]))
    assert played.end is not None and played.end.answer == "ok"
    [refused] = played.turns
    assert refused.command is not None and refused.command.name == "finish"


def test_code_that_decided_on_finish_behind_other_calls_ends_its_run() -> None:
    made = ControllerExecutorFlow(
        controller=Replies([[call(0, "tells"), call(1, "finish", answer=1)]]),
        commands=[command(name="tells", errors="observe")(boom)],
    )
    end = play_through(made).end
    assert end is not None and end.answer == 1
