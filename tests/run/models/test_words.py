"""A reply in words is the answer, gets a hint, or goes to a person, as the flow says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure import (
    Advance,
    BadReply,
    Command,
    ControllerExecutorFlow,
    End,
    Interrupt,
    RoundContext,
    command,
)
from perdure.flows.controllers.model import ModelController
from perdure.flows.core.history import History
from perdure.flows.rounds.providers import Endpoint
from tests.support.chat_server import ChatServer, Says, chat_server

WORDS = Says("The sum is 3, I think.", thinking="hm")


def flow(words: str | None = None, **settings: Any) -> ControllerExecutorFlow:
    said = {} if words is None else {"words": words}
    return ControllerExecutorFlow(
        controller=ModelController(model="m", **said, **settings), commands=[add], name="words"
    )


@command(idempotent=True)
def add(a: int, b: int = 0) -> int:
    """The sum."""
    return a + b


def seen(server: ChatServer, **fields: Any) -> RoundContext:
    return RoundContext("add", endpoint=Endpoint(None, server.url), **fields)


@pytest.mark.parametrize("text", [WORDS.text, 'Write `{1 + 2}` or {"a": 3}.'])
def test_words_that_ended_in_order_are_the_answer_by_default(text: str) -> None:
    with chat_server([replace(WORDS, text=text)]) as server:
        end = flow().play("Controller", seen(server))
    assert isinstance(end, End) and end.output == {"answer": text, "status": "finished"}
    assert "_reply" not in str(end)


@pytest.mark.parametrize(
    "says",
    [
        replace(WORDS, ended="length"),
        Says(""),
        Says('{"command": "finish", "command_args": {"answ'),
    ],
)
def test_words_that_were_cut_or_meant_as_a_command_are_no_answer(says: Says) -> None:
    with chat_server([says]) as server:
        outcome = flow().play("Controller", seen(server))
    assert isinstance(outcome, Advance) and "BadReply" in outcome.turns[0].observation["error"]


def test_where_finish_takes_more_than_a_text_words_are_no_answer() -> None:
    both = {"subflows_config": {"Controller": {"finish": {"input_args": ["answer", "why"]}}}}
    asking = ControllerExecutorFlow(
        controller=ModelController(model="m"), commands=[add], flow_config=both
    )
    with chat_server([WORDS]) as server:
        outcome = asking.play("Controller", seen(server))
    assert (
        isinstance(outcome, Advance) and "calls no command" in outcome.turns[0].observation["error"]
    )


def test_a_model_that_calls_no_tools_answers_in_the_json_format_alone() -> None:
    with chat_server([WORDS]) as server:
        assert isinstance(flow(reply="json").play("Controller", seen(server)), Advance)


def test_with_ask_the_words_are_the_assistants_and_the_hint_is_the_users() -> None:
    with chat_server([WORDS]) as server:
        outcome = flow("ask").play("Controller", seen(server))
        assert isinstance(outcome, Advance) and outcome.values["_bad_replies"] == 1
        flow("ask").play(
            "Controller", seen(server, history=History(1, outcome.turns, lambda start, stop: []))
        )
        said, hint = server.play.asked[-1].body["messages"][-2:]
    assert (said["role"], said["content"], said["reasoning_content"]) == (
        "assistant",
        WORDS.text,
        "hm",
    )
    assert (
        hint["role"] == "user"
        and "call one of the commands" in hint["content"]
        and WORDS.text not in str(said.get("tool_calls"))
    )


def test_with_person_the_words_are_a_question_and_the_answer_goes_to_the_model() -> None:
    with chat_server([WORDS]) as server:
        context = seen(server)
        asked = flow("person").play("Controller", context)
        assert isinstance(asked, Interrupt) and asked.data == {"words": WORDS.text}
        assert flow("person").play("Controller", context) == asked, (
            "a worker that died before the pause asks the same"
        )
        answered = replace(context, answered=True, answer="add 1 and 2", asked=asked.data)
        outcome = flow("person").play("Controller", answered)
        assert isinstance(outcome, Advance) and outcome.node == "Controller" and outcome.ends_cycle
        assert len(server.play.asked) == 1, "the model is not asked twice"
        flow("person").play(
            "Controller", seen(server, history=History(1, outcome.turns, lambda start, stop: []))
        )
        said, heard = server.play.asked[-1].body["messages"][-2:]
    assert (said["content"], said["reasoning_content"]) == (WORDS.text, "hm")
    assert heard == {"role": "user", "content": "A person says: add 1 and 2"}


def test_a_resume_without_an_answer_takes_the_words_as_the_answer() -> None:
    with chat_server([WORDS]) as server:
        context = seen(server)
        asked = flow("person").play("Controller", context)
        end = flow("person").play(
            "Controller", replace(context, answered=True, answer=None, asked=asked.data)
        )  # type: ignore[union-attr]
    assert isinstance(end, End) and end.answer == WORDS.text


def test_a_person_is_no_bad_reply() -> None:
    with chat_server([WORDS]) as server:
        context = seen(server, committed={"_bad_replies": 2})
        asked = flow("person").play(
            "Controller", replace(context, answered=True, answer="to another question")
        )
        assert isinstance(asked, Interrupt)
        outcome = flow("person").play(
            "Controller", replace(context, answered=True, answer="go on", asked=asked.data)
        )
    assert isinstance(outcome, Advance) and outcome.values["_bad_replies"] == 0


def test_a_controller_may_hand_back_what_was_said_before_it_decides() -> None:
    from perdure import Turn
    from perdure.flows.commands.scripted import ScriptedController

    turn = Turn(Command("say"), "hello")
    outcome = ControllerExecutorFlow(controller=ScriptedController([turn]), commands=[add]).play(
        "Controller", RoundContext("g")
    )
    assert isinstance(outcome, Advance) and (outcome.node, outcome.turns) == ("Controller", (turn,))


def test_what_words_may_be_is_checked() -> None:
    from perdure.flows.commands.controller import InvalidController

    with pytest.raises(InvalidController, match="words"):
        ModelController(words="shout")


def test_a_bad_reply_in_words_keeps_what_was_said() -> None:
    with chat_server([WORDS]) as server:
        controller = ModelController(model="m", words="ask")
        context = replace(seen(server), commands=flow().schemas())
        from perdure.flows.commands.calls import call

        with pytest.raises(BadReply) as bad:
            call(controller.decide, context, context)
    assert bad.value.command is not None and bad.value.command.extras["thought"] == WORDS.text
