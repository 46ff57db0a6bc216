"""People's messages to a run, as its controller gets them: turns, questions, ends that are put off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import (
    Advance,
    BadReply,
    Command,
    Controller,
    ControllerExecutorFlow,
    End,
    Finish,
    History,
    Interrupt,
    InvalidFlow,
    Mailbox,
    RoundContext,
    Turn,
    UnstorableValue,
    command,
)
from perdure.flows.controllers.model.chat import UserMessage
from perdure.flows.controllers.model.history_window import WindowView
from perdure.flows.controllers.model.messages import history_messages
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.rounds.messages_to_run import MOST_HEARD, NOT_FINISHED
from perdure.flows.rounds.waits import ReceivedSignal


class Decides(Controller):
    """Gives back the test's decisions, and keeps the context of the request."""

    reads_errors = True

    def __init__(self, decision: Any) -> None:
        self.decision, self.seen = decision, RoundContext("g")

    def decide(self, context: RoundContext) -> Any:
        self.seen = context
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision


def note(text: str = "") -> str:
    """Note a text."""
    return text


def flow_of(decision: Any, **settings: Any) -> tuple[ControllerExecutorFlow, Decides]:
    controller = Decides(decision)
    return ControllerExecutorFlow(controller=controller, commands=[note], **settings), controller


def told(*words: str, ask: str | None = None, **fields: Any) -> RoundContext:
    """Make a round with these messages, and this question."""
    mailbox = Mailbox()
    for each in words:
        mailbox.send("say", each, by="ada")
    if ask is not None:
        mailbox.send("ask", ask)
    return RoundContext("g", node="Controller", mailbox=mailbox, **fields)


SAID = Turn(None, {"say": "look", "number": 1, "by": "ada"})


def test_what_was_said_is_in_the_history_in_which_the_controller_decides() -> None:
    flow, controller = flow_of(Command("note"))
    context = told("look")
    outcome = flow.play("Controller", context)
    assert isinstance(outcome, Advance) and outcome.turns == (SAID,)
    assert list(controller.seen.history) == [SAID] and controller.seen.history[0].said == "look"
    assert context.mailbox.used == {"say": 1}


def test_it_is_no_observation() -> None:
    flow, controller = flow_of(Command("note"))
    turns = [Turn(Command("note"), "noted")]
    history = History(1, turns, lambda start, stop: turns[start:stop])
    outcome = flow.play("Controller", told("look", history=history))
    assert (controller.seen.observation, controller.seen.said) == ("noted", ["look"])
    assert len(controller.seen.history) == 2
    assert isinstance(outcome, Advance) and outcome.values["_remarks"] == [1]


def test_code_has_what_was_said_beside_its_own_turns() -> None:
    seen: list[RoundContext] = []

    class Coded(ControllerExecutorFlow):
        def decide(self, context: RoundContext) -> Finish:
            seen.append(context)
            return Finish("done")

    stored = [Turn(Command("note"), 0), SAID, Turn(Command("note"), 1)]
    history = History(3, stored[-1:], lambda start, stop: stored[start:stop])
    outcome = Coded().play("Controller", told("now", history=history, committed={"_remarks": [1]}))
    (context,) = seen
    assert context.said == ["look", "now"]
    assert [turn.observation for turn in context.history] == [0, 1] and context.observation == 1
    assert isinstance(outcome, End) and outcome.values["_remarks"] == [1, 3]


def test_code_has_the_questions_that_are_open_and_no_others() -> None:
    stored = [
        Turn(None, {"ask": "who?", "number": 1}),
        Turn(None, {"say": "look", "number": 1}),
        Turn(None, {"ask": "when?", "number": 2}),
    ]
    history = History(3, stored, lambda start, stop: stored[start:stop])
    committed = {"_remarks": [0, 1, 2], "_open_asks": [2]}
    context = RoundContext("g", history=history, committed=committed)
    assert (context.said, context.questions) == (["look"], ["when?"])


def test_what_was_said_is_gone_with_its_turn() -> None:
    stored = [Turn(None, {"say": str(number), "number": number}) for number in range(4)]
    history = History(4, stored[2:], lambda start, stop: stored[start:stop], forgotten=2)
    context = RoundContext("g", history=history, committed={"_remarks": [0, 1, 2, 3]})
    assert context.said == ["2", "3"]


def test_a_controller_of_a_bounded_history_hears() -> None:
    flow, controller = flow_of(Command("note"))
    stored = [Turn(Command("note"), number) for number in range(5)]
    history = History(5, stored[4:], lambda start, stop: stored[max(3, start) : stop], forgotten=3)
    flow.play("Controller", told("look", history=history))
    assert [turn.observation for turn in controller.seen.history[:-1]] == [3, 4]
    assert controller.seen.history[3].observation == 3


@pytest.mark.parametrize("places", [[], [0], [2, 3], [0, 1, 5, 6], [6]])
@pytest.mark.parametrize("known", [0, 2, 7])
def test_a_history_without_some_turns_is_that_of_the_others(places: list[int], known: int) -> None:
    turns = [Turn(Command("note"), number) for number in range(7)]
    newest = turns[7 - known :]
    history = History(7, newest, lambda start, stop: turns[start:stop]).without(places)
    left = [turn for place, turn in enumerate(turns) if place not in places]
    assert list(history) == left and len(history) == len(left)
    assert (history[-1], history[0], history[1:3]) == (left[-1], left[0], left[1:3])


def test_the_newest_turns_are_not_read_again() -> None:
    turns = [Turn(Command("note"), 0), SAID, Turn(Command("note"), 1)]
    history = History(3, turns, lambda start, stop: pytest.fail("read again"))
    assert [turn.observation for turn in history.without([1])] == [0, 1]


def test_a_round_that_was_told_nothing_adds_nothing() -> None:
    flow, _ = flow_of(Command("note"))
    outcome = flow.play("Controller", told())
    assert isinstance(outcome, Advance) and (outcome.turns, outcome.artifacts) == ((), {})
    assert set(outcome.values) == {"command", "command_args", "_said"}


def test_a_question_to_a_person_takes_nothing() -> None:
    flow, _ = flow_of(Interrupt("may I?"))
    assert isinstance(flow.play("Controller", told("look")), Interrupt)


def test_a_bad_reply_keeps_what_was_said() -> None:
    flow, _ = flow_of(BadReply("no"))
    outcome = flow.play("Controller", told("look"))
    assert isinstance(outcome, Advance) and outcome.turns[0] == SAID and len(outcome.turns) == 2


def test_long_words_are_kept_whole_beside_the_history() -> None:
    flow, _ = flow_of(Command("note"), max_result=10)
    outcome = flow.play("Controller", told("x" * 100, step=4))
    assert isinstance(outcome, Advance) and outcome.turns[0].said["beginning"] == "x" * 10
    assert outcome.artifacts == {"4-say-1": "x" * 100}


def test_a_round_hears_so_much_and_the_next_one_the_rest() -> None:
    context = told(*map(str, range(MOST_HEARD + 1)))
    outcome = flow_of(Command("note"))[0].play("Controller", context)
    assert isinstance(outcome, Advance) and len(outcome.turns) == MOST_HEARD
    assert context.mailbox.all_unread(["say"], 9)[0].payload == str(MOST_HEARD)


def test_a_finish_says_what_happens_if_it_has_not_heard_all() -> None:
    flow, _ = flow_of(Command("finish", {"answer": "done"}, {"thought": "t"}, "call-1"))
    outcome = flow.play("Controller", told("look"))
    assert isinstance(outcome, End) and outcome.otherwise is not None
    put_off = outcome.otherwise
    assert (put_off.node, put_off.ends_cycle, put_off.values["_put_off"]) == (
        "Controller",
        False,
        1,
    )
    finish = Command("finish", {"answer": "done"}, {"thought": "t"}, "call-1")
    assert put_off.turns == (SAID, Turn(finish, {"error": NOT_FINISHED}))
    assert put_off.values["_remarks"] == [0]
    assert not {"EARLY_EXIT", "answer", "status"} & set(put_off.values)


def test_code_reads_nothing_of_its_own_finish_in_the_history() -> None:
    class Coded(ControllerExecutorFlow):
        def decide(self, context: RoundContext) -> Finish:
            return Finish("done")

    outcome = Coded().play("Controller", told("look"))
    assert isinstance(outcome, End) and outcome.otherwise is not None
    assert outcome.otherwise.turns == (SAID,)


def test_the_ninth_end_in_a_row_is_not_put_off() -> None:
    flow, _ = flow_of(Finish("done"))
    eighth = flow.play("Controller", told(committed={"_put_off": 7}))
    ninth = flow.play("Controller", told(committed={"_put_off": 8}))
    assert isinstance(eighth, End) and eighth.otherwise is not None
    assert isinstance(ninth, End) and ninth.otherwise is None
    goes_on = flow_of(Command("note"))[0].play("Controller", told(committed={"_put_off": 8}))
    assert isinstance(goes_on, Advance) and goes_on.values["_put_off"] == 0


def test_a_finish_that_waits_behind_other_calls_is_put_off_too() -> None:
    flow, _ = flow_of([Command("note", {"text": "a"}), Command("finish", {"answer": "b"})])
    first = flow.play("Controller", told())
    assert isinstance(first, Advance)
    outcome = flow.play("Executor", RoundContext("g", node="Executor", committed=first.values))
    assert isinstance(outcome, End) and outcome.otherwise is not None
    assert [turn.command and turn.command.name for turn in outcome.otherwise.turns] == [
        "note",
        "finish",
    ]
    assert (outcome.otherwise.node, outcome.otherwise.values["_waiting"]) == ("Controller", [])


def names_of(context: RoundContext) -> list[str]:
    return [each["name"] for each in context.commands]


def test_reply_is_offered_while_a_question_is_open() -> None:
    flow, controller = flow_of(Command("note"))
    flow.play("Controller", told("look"))
    assert names_of(controller.seen) == ["note", "finish"]
    outcome = flow.play("Controller", told(ask="status?"))
    assert names_of(controller.seen) == ["note", "finish", "reply"]
    assert isinstance(outcome, Advance) and outcome.values["_open_asks"] == [1]
    flow.play("Controller", told(committed=outcome.values))
    assert names_of(controller.seen) == ["note", "finish", "reply"], "until it is answered"


def test_reply_is_a_bad_reply_while_no_question_is_open() -> None:
    flow, _ = flow_of(Command("reply", {"answer": 1}))
    outcome = flow.play("Controller", told())
    assert isinstance(outcome, Advance) and "no command is named 'reply'" in str(outcome.turns)


@pytest.mark.parametrize(("number", "left"), [(None, [2]), (2, [1]), (1, [2])])
def test_a_reply_answers_the_oldest_question_or_the_one_that_it_names(
    number: int | None, left: list[int]
) -> None:
    flow, _ = flow_of(None)
    args = {"answer": {"is": "fine"}} | ({} if number is None else {"number": number})
    committed = {"command": "reply", "command_args": args, "_open_asks": [1, 2]}
    context = RoundContext("g", node="Executor", committed=committed)
    outcome = flow.play("Executor", context)
    (answered,) = context.mailbox.replies.items()
    assert answered == (("ask", 3 - left[0]), '{"is":"fine"}')
    assert isinstance(outcome, Advance) and outcome.values["_open_asks"] == left
    assert outcome.turns[0].observation == {"replied": 3 - left[0]}


def test_a_reply_to_a_question_that_is_not_open_is_an_observation() -> None:
    flow, _ = flow_of(None)
    args = {"answer": 1, "number": 7}
    committed = {"command": "reply", "command_args": args, "_open_asks": [1]}
    outcome = flow.play("Executor", RoundContext("g", node="Executor", committed=committed))
    assert isinstance(outcome, Advance) and "number 7" in str(outcome.turns[0].observation)


def test_a_flow_may_have_a_command_of_that_name() -> None:
    class Own(ControllerExecutorFlow):
        controller = Decides(Command("reply", {"to": "ada"}))

        @command(idempotent=True)
        def reply(self, to: str) -> str:
            """Write to a customer."""
            return f"wrote to {to}"

    first = Own().play("Controller", told(ask="status?"))
    assert isinstance(first, Advance)
    outcome = Own().play("Executor", RoundContext("g", node="Executor", committed=first.values))
    assert isinstance(outcome, Advance) and outcome.turns[0].observation == "wrote to ada"


def test_the_first_reply_of_a_round_stands() -> None:
    context = RoundContext("g")
    asked = ReceivedSignal("ask", 1)
    context.reply(asked, "yes")
    context.reply(asked, "no")
    assert context.mailbox.replies == {("ask", 1): '"yes"'}
    with pytest.raises(UnstorableValue, match="the reply to signal 1 of ask"):
        context.reply(asked, object())
    with pytest.raises(InvalidFlow, match="a signal that the run received"):
        context.reply("ask", "yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("tools", [True, False])
def test_a_model_reads_who_said_what(tools: bool) -> None:
    turns = (
        SAID,
        Turn(None, {"say": {"see": "here"}, "number": 2}),
        Turn(None, {"ask": "status?", "number": 1, "by": "ada"}),
        Turn(None, {"error": "BadReply: no"}),
    )
    shown = WindowView((), 0, tuple((turn,) for turn in turns))
    texts = [message.text for message in history_messages(shown, ToolNames([]), tools)]
    assert texts == [
        "ada says: look",
        'A person says: {"see":"here"}',
        "ada asks (question 1; answer with the command reply): status?",
        f"Observation: {json.dumps({'error': 'BadReply: no'}, separators=(',', ':'))}",
    ]
    assert all(
        isinstance(message, UserMessage)
        for message in history_messages(shown, ToolNames([]), tools)
    )
