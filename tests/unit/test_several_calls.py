"""Several calls in one reply: each is carried out in a round of its own, in order, and each is answered."""

from __future__ import annotations

from typing import Any

import pytest

from flows import BadReply, Command, ControllerExecutorFlow, FatalError, Finish, Interrupt, ScriptedController, Turn
from flows.several import MOST_CALLS
from tests.support.playing import play_through


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
    return ControllerExecutorFlow(controller=Replies(replies), commands=[add, picky], **settings)


def call(place: int, name: str = "add", **args: Any) -> Command:
    return Command(name, args, call=f"call_{place}", part=place)


def test_each_call_of_a_reply_has_a_round_and_a_turn_of_its_own_in_order() -> None:
    played = play_through(flow([call(0, a=1), call(1, a=2), call(2, a=3)], Finish("done")))
    assert played.nodes == ["Controller", "Executor", "Executor", "Executor", "Controller"]
    assert played.turns == [Turn(call(0, a=1), 1), Turn(call(1, a=2), 2), Turn(call(2, a=3), 3)]
    assert played.end is not None and played.end.answer == "done"


def test_a_call_that_cannot_be_carried_out_is_answered_in_its_place_and_the_others_go_on() -> None:
    reply = [call(0, "nothing"), call(1, a=1), BadReply("no JSON", call(2)), call(3, a="x"), call(4, a=2)]
    played = play_through(flow(reply, Finish("done")))
    assert [turn.command and turn.command.part for turn in played.turns] == [0, 1, 2, 3, 4]
    assert [turn.observation for turn in played.turns if not isinstance(turn.observation, dict)] == [1, 2]
    errors = [turn.observation["error"] for turn in played.turns if isinstance(turn.observation, dict)]
    assert ["no command is named 'nothing'" in errors[0], "no JSON" in errors[1], "does not accept" in errors[2]] == [True] * 3
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
    played = play_through(flow([call(0, a=1), call(1, a=2)], Command("add", {"a": 3}), Finish("done")))
    assert played.turns[-1] == Turn(Command("add", {"a": 3}), 3)


def test_no_reply_has_more_calls_than_are_taken() -> None:
    played = play_through(flow([call(place, a=place) for place in range(MOST_CALLS + 2)], Finish("done"), max_rounds=200))
    assert len(played.turns) == MOST_CALLS + 2
    assert all("a reply may hold" in turn.observation["error"] for turn in played.turns[-2:])


def test_what_is_no_command_in_a_list_is_answered() -> None:
    played = play_through(flow([Interrupt("?"), call(1, a=1)], Finish("done")))
    assert played.turns[0].command is None and "a list of decisions holds commands" in played.turns[0].observation["error"]
    assert played.turns[1] == Turn(call(1, a=1), 1)
