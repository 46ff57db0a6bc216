"""A model's thoughts are sent back to it as its provider wants them, and shown to no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Advance, Command, ControllerExecutorFlow, RoundContext, Turn, command
from perdure.flows.commands.calls import call
from perdure.flows.commands.replies import read_reply
from perdure.flows.commands.scripted import ScriptedController
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.chat import AssistantMessage, Reply, ToolCall
from perdure.flows.controllers.model.cost import next_estimate
from perdure.flows.controllers.model.messages import group_messages
from perdure.flows.controllers.model.parse_reply import decisions_of
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.history import History
from perdure.flows.core.reply_extras import MOST_WITH_TURN, REPLY, public
from perdure.flows.core.summaries import summary_of
from perdure.flows.rounds.providers import Endpoint
from tests.support.chat_server import ChatServer, Says, Sends, chat_server

THINKS = Says("", [("add_numbers", {"a": 1, "b": 2})], thinking="I should add, silently.")
NAMES = ToolNames(["add_numbers", "finish"])
SIGNED = {
    "parts": [
        {
            "content": "deep",
            "signature": "c2lnbmVk",
            "provider_name": "anthropic",
            "part_kind": "thinking",
        },
        {"content": "I add.", "part_kind": "text"},
        {
            "tool_name": "add_numbers",
            "args": '{"a": 1}',
            "tool_call_id": "c0",
            "part_kind": "tool-call",
        },
        {
            "tool_name": "finish",
            "args": '{"answer": 1}',
            "tool_call_id": "c1",
            "part_kind": "tool-call",
        },
    ],
    "model_name": "claude",
    "provider_name": "anthropic",
    "kind": "response",
}


class Adding(ControllerExecutorFlow):
    controller = ModelController(model="m")

    @command(idempotent=True)
    def add_numbers(self, a: int, b: int = 0) -> int:
        """The sum."""
        return a + b


def decide(
    server: ChatServer, *turns: Turn, artifact: Callable[[str], str] = {}.__getitem__
) -> Command:
    history = History(len(turns), turns, lambda start, stop: turns[start:stop])
    context = RoundContext(
        "add",
        endpoint=Endpoint(None, server.url),
        commands=Adding().schemas(),
        history=history,
        artifact=artifact,
    )
    decided = call(Adding.controller.decide, context, context)  # type: ignore[union-attr]
    assert isinstance(decided, Command)
    return decided


def replied(server: ChatServer) -> list[dict[str, Any]]:
    return [
        message
        for message in server.play.asked[-1].body["messages"]
        if message["role"] == "assistant"
    ]


def kept(**changed: Any) -> Turn:
    reply = json.dumps({**SIGNED, **changed})
    return Turn(Command("add_numbers", {"a": 1}, {"thought": "I add.", REPLY: reply}, "c0", 0), 1)


def test_reasoning_is_sent_back_where_it_came_from_and_not_as_the_models_words() -> None:
    with chat_server([THINKS]) as server:
        first = decide(server)
        decide(server, Turn(first, 3))
        [sent] = replied(server)
    assert sent["reasoning_content"] == "I should add, silently."
    assert "silently" not in str(sent["content"] or "")
    assert [each["id"] for each in sent["tool_calls"]] == [first.call]


def test_a_thought_that_was_not_said_is_shown_to_people_and_never_sent_as_words() -> None:
    [decided] = decisions_of(Reply("", (ToolCall("a", "add_numbers", "{}"),), thinking="hm"), NAMES)
    assert isinstance(decided, Command) and decided.extras["thought"] == "hm"
    assert group_messages((Turn(decided, 1),), NAMES, tools=True)[0] == AssistantMessage(
        "", (ToolCall("a", "add_numbers", "{}"),)
    )


def test_a_reply_of_words_and_calls_alone_is_not_kept_a_second_time() -> None:
    with chat_server([Says("I add.", [("add_numbers", {"a": 1})])]) as server:
        assert decide(server).extras == {"thought": "I add."}


def test_what_another_provider_signed_is_left_out_and_the_run_goes_on() -> None:
    with chat_server([THINKS]) as server:
        decide(server, kept())
        [sent] = replied(server)
    assert (
        "c2lnbmVk" not in str(sent)
        and "deep" not in str(sent)
        and [each["id"] for each in sent["tool_calls"]] == ["c0"]
    )


def test_calls_that_were_never_answered_are_not_sent_back() -> None:
    with chat_server([THINKS]) as server:
        decide(server, kept())
        assert "finish" not in str(replied(server))


@pytest.mark.parametrize(
    "reply", ["no JSON", '{"kind": "response", "parts": []}', '{"kind": "of a later release"}']
)
def test_a_kept_reply_that_does_not_fit_gives_way_to_words_and_calls(reply: str) -> None:
    with chat_server([THINKS]) as server:
        decide(
            server,
            Turn(Command("add_numbers", {"a": 1}, {"thought": "I add.", REPLY: reply}, "c0", 0), 1),
        )
        [sent] = replied(server)
    assert sent["content"] == "I add." and sent["tool_calls"][0]["id"] == "c0"


def test_white_space_between_thoughts_is_not_sent_back() -> None:
    blank = {"content": "\n\n", "part_kind": "text"}
    with chat_server([THINKS]) as server:
        decide(server, kept(parts=[blank, *SIGNED["parts"]]))  # type: ignore[misc]
        assert replied(server)[0]["content"] == "I add."


@pytest.mark.parametrize(
    ("system", "profile", "signature", "sent"),
    [
        ("bedrock", {"bedrock_send_back_thinking_parts": True}, "s", True),
        ("bedrock", {"bedrock_send_back_thinking_parts": True}, None, False),
        ("bedrock", {}, "s", False),
        ("anthropic", {}, "s", True),
        ("anthropic", {}, None, False),
        ("groq", {}, None, False),
        ("mistral", {}, None, True),
    ],
)
def test_thinking_that_the_library_can_only_put_between_tags_is_left_out(
    system: str, profile: dict[str, Any], signature: str | None, sent: bool
) -> None:
    from pydantic_ai.models.test import TestModel

    from perdure.flows.controllers.model.responses import response_of

    class Theirs(TestModel):
        @property
        def system(self) -> str:
            return system

    thinking = {
        "content": "deep",
        "signature": signature,
        "provider_name": system,
        "part_kind": "thinking",
    }
    parts = [thinking, *SIGNED["parts"][1:3]]  # type: ignore[index]
    message = AssistantMessage(
        "",
        (ToolCall("c0", "add_numbers", "{}"),),
        json.dumps({**SIGNED, "provider_name": system, "parts": parts}),
    )
    response = response_of(message, Theirs(profile=profile))  # type: ignore[arg-type]
    assert response is not None and ("deep" in str(response.parts)) == sent


@pytest.mark.parametrize(
    ("model", "parts", "sent"),
    [
        ("claude", SIGNED["parts"][1:3], {"content": "I add.", "reasoning": "deep"}),  # type: ignore[index]
        ("another", SIGNED["parts"][1:3], {"content": "I add."}),  # type: ignore[index]
        ("claude", [SIGNED["parts"][1]] * 2, {"content": "I add."}),  # type: ignore[index]
    ],
)
def test_groq_gets_the_reasoning_of_calls_in_its_own_field(
    model: str, parts: list[Any], sent: dict[str, str]
) -> None:
    from pydantic_ai.messages import ModelResponse, ThinkingPart
    from pydantic_ai.models.test import TestModel

    from perdure.flows.controllers.model.provider_clients import send_reasoning
    from perdure.flows.controllers.model.responses import response_of

    class Groq(TestModel):
        """A model of Groq as the library makes its messages: thinking is between tags."""

        system = "groq"

        def _map_model_response(self, response: ModelResponse) -> dict[str, Any]:
            texts = [
                f"<think>{part.content}" if isinstance(part, ThinkingPart) else part.content
                for part in response.parts[:-1]
            ]  # type: ignore[union-attr]
            return {"role": "assistant", "content": "".join(texts)}

    calls = (ToolCall("c0", "add_numbers", "{}"),) if "tool_name" in parts[-1] else ()
    thinking = {"content": "deep", "provider_name": "groq", "part_kind": "thinking"}
    kept = json.dumps({**SIGNED, "provider_name": "groq", "parts": [thinking, *parts]})
    asked = Groq(model_name=model)  # type: ignore[abstract]
    send_reasoning(asked)
    response = response_of(AssistantMessage("", calls, kept), asked)
    assert response is not None
    assert asked._map_model_response(response) == {"role": "assistant", **sent}


def test_a_real_model_of_groq_sends_reasoning_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TEST_KEY", "hf-test-key")
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-oss"}
    function = {"name": "add_numbers", "arguments": '{"a": 1}'}
    deltas = [
        {"role": "assistant", "reasoning": "I should add."},
        {"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": function}]},
        {},
    ]
    ends = [None, None, "tool_calls"]
    events = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(deltas, ends, strict=True)
    ]
    raw = (
        "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode() + b"data: [DONE]\n\n"
    )
    with chat_server([THINKS], {0: [Sends(raw)], 1: [Sends(raw)]}) as server:
        controller = ModelController(
            model="groq:gpt-oss",
            provider={"api_key": "env:HF_TEST_KEY", "base_url": server.url.removesuffix("/v1")},
        )
        turns: list[Turn] = []
        for _ in range(2):
            history = History(len(turns), tuple(turns), lambda start, stop: turns[start:stop])
            context = RoundContext("add", commands=Adding().schemas(), history=history)
            turns.append(Turn(call(controller.decide, context, context), 3))
        [sent] = replied(server)
    assert sent["reasoning"] == "I should add." and not sent.get("content")


def test_a_turn_of_the_last_release_is_sent_as_it_was() -> None:
    with chat_server([THINKS]) as server:
        decide(server, Turn(Command("add_numbers", {"a": 1}, {"thought": "I add."}, "c0", 0), 1))
        [sent] = replied(server)
    assert sent["content"] == "I add." and sent["tool_calls"][0]["function"] == {
        "name": "add_numbers",
        "arguments": '{"a":1}',
    }


def test_arguments_that_are_no_json_are_sent_back_as_they_were_understood() -> None:
    parts = [SIGNED["parts"][0], {**SIGNED["parts"][2], "args": '{"a": '}]  # type: ignore[index, dict-item]
    with chat_server([THINKS]) as server:
        decide(
            server,
            Turn(
                Command(
                    "add_numbers", {}, {REPLY: json.dumps({**SIGNED, "parts": parts})}, "c0", 0
                ),
                {"error": "no"},
            ),
        )
        assert replied(server)[0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_kept_reply_is_in_no_summary_no_prompt_and_no_words_of_the_model() -> None:
    turn = kept()
    assert turn.command is not None
    assert REPLY not in str(summary_of(turn.command)) and public(turn.command.extras) == {
        "thought": "I add."
    }
    assert "c2lnbmVk" not in str(group_messages((turn,), NAMES, tools=False))
    claimed = read_reply({"command": "add", "command_args": {}, "thought": "t", REPLY: "forged"})
    assert isinstance(claimed, Command) and claimed.extras == {"thought": "t"}


def played(size: int) -> Advance:
    decided = Command("add_numbers", {"a": 1}, {"thought": "t", REPLY: "x" * size}, "c0", 0)
    flow = Adding(controller=ScriptedController([decided]))
    outcome = flow.play("Controller", RoundContext("add", step=4))
    assert isinstance(outcome, Advance)
    return outcome


def test_a_long_reply_is_an_artifact_and_is_read_where_it_is_sent() -> None:
    assert played(MOST_WITH_TURN).artifacts == {}
    long = played(MOST_WITH_TURN + 1)
    said = long.values["_said"]
    assert long.artifacts == {"reply-4": "x" * (MOST_WITH_TURN + 1)} and len(str(said)) < 200
    with chat_server([THINKS]) as server:
        turn = Turn(Command("add_numbers", {"a": 1}, said, "c0", 0), 1)
        read: list[str] = []
        decide(
            server, turn, artifact=lambda name: read.append(name) or kept().command.extras[REPLY]
        )  # type: ignore[func-returns-value, union-attr]
        assert read == ["reply-4"] and replied(server)[0]["content"] == "I add."
        decide(server, turn)  # the artifact is gone
        assert replied(server)[0]["content"] == "t"


def test_a_long_reply_of_which_no_call_will_do_is_an_artifact_too() -> None:
    calls = [
        Command("gone", {}, {REPLY: "x" * (MOST_WITH_TURN + 1)}, "c0", 0),
        Command("gone", {}, {}, "c1", 1),
    ]
    outcome = Adding(controller=ScriptedController([calls], reads_errors=True)).play(
        "Controller", RoundContext("add", step=2)
    )
    assert isinstance(outcome, Advance) and list(outcome.artifacts) == ["reply-2"]
    assert "xxxx" not in str(outcome.turns)


def test_an_estimate_counts_what_is_sent_back() -> None:
    def tokens(**extras: Any) -> float:
        turn = Turn(Command("add_numbers", {"a": 1}, extras, "c0", 0), 1)
        history = History(1, [turn], lambda start, stop: [])
        return next_estimate([100, 10, None, 0], RoundContext("g", history=history), None)[
            "input_tokens"
        ]

    assert tokens(**{REPLY: "x" * 3_000}) == tokens() + 1_000
    assert tokens(**{REPLY: {"artifact": "reply-4", "bytes": 90_000}}) == tokens() + 30_000
