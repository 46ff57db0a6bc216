"""A reply is whole if it has the reason of its end: a stream that ends in order before that is
tried again, with any content so far.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import (
    BadReply,
    Command,
    ControllerExecutorFlow,
    FatalError,
    RetryableError,
    RoundContext,
    command,
)
from perdure.flows.commands.calls import call
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.chat import ModelFailed, Reply, ToolCall
from perdure.flows.controllers.model.parse_reply import decisions_of
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.rounds.providers import Endpoint
from tests.support.chat_server import ChatServer, Ends, Says, Sends, chat_server

#: Words and two calls: a stream of nine events. The eighth has the reason of the end, and the ninth
#: the usage.
SAYS = Says(
    "First I delete.", [("delete_all", {"path": "/tmp/only-this"}), ("note", {"path": "b"})]
)
EVENTS_BEFORE_THE_REASON = range(8)
NAMES = ToolNames(["delete_all", "note", "finish"])


class Deleting(ControllerExecutorFlow):
    controller = ModelController()

    @command(idempotent=True)
    def delete_all(self, path: str = "/") -> str:
        """Delete all that is there."""
        return path

    @command(idempotent=True)
    def note(self, path: str = "") -> str:
        """Note a path."""
        return path


COMMANDS = Deleting().schemas()


def decide(
    server: ChatServer, model: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, RoundContext]:
    """Return the model's decision: asked by URL, or through a provider's prefix."""
    monkeypatch.setenv("HF_TEST_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setattr("pydantic_ai.providers.deepseek.DeepSeekProvider.base_url", server.url)
    endpoint = (
        Endpoint(model, None, "env:HF_TEST_KEY") if ":" in model else Endpoint(model, server.url)
    )
    context = RoundContext("tidy up", endpoint=endpoint, commands=COMMANDS)
    try:
        return call(ModelController().decide, context, context), context
    except (FatalError, RetryableError) as error:
        return error, context


@pytest.mark.parametrize("model", ["m", "openai-chat:m", "deepseek:m"])
def test_a_stream_that_ends_in_order_before_its_reason_is_tried_again_and_charged(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat_server([SAYS], {0: [Ends(after) for after in EVENTS_BEFORE_THE_REASON]}) as server:
        for after in EVENTS_BEFORE_THE_REASON:
            error, context = decide(server, model, monkeypatch)
            assert isinstance(error, RetryableError) and "incomplete reply" in str(error), (
                f"cut behind event {after}"
            )
            assert context.spent == dict(ModelController().estimate(context))
        several, _ = decide(server, model, monkeypatch)
        assert [each.args for each in several] == [{"path": "/tmp/only-this"}, {"path": "b"}]


@pytest.mark.parametrize("model", ["m", "openai-chat:m", "deepseek:m"])
def test_a_stream_that_says_done_is_whole_without_a_reason(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat_server([SAYS], {0: [Ends(7, done=True)]}) as server:
        several, context = decide(server, model, monkeypatch)
    assert [each.name for each in several] == ["delete_all", "note"]
    assert context.spent == dict(ModelController().estimate(context)), (
        "its usage would have come later"
    )


def test_words_that_look_like_the_end_are_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_server([Says("I say\ndata: [DONE]\n\nand more")], {0: [Ends(3)]}) as server:
        error, _ = decide(server, "m", monkeypatch)
    assert isinstance(error, RetryableError)


def _responses(*events: dict[str, Any]) -> Sends:
    return Sends(
        b"".join(
            b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode())
            for each in events
        )
    )


@pytest.mark.parametrize("code", ["invalid_api_key", "model_not_found"])
def test_an_error_of_the_responses_api_as_an_event_ends_the_run_as_its_status_does(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = {"type": "error", "code": code, "message": "no", "param": None, "sequence_number": 0}
    with chat_server(faults={0: [_responses(event)]}) as server:
        error, context = decide(server, "openai:m", monkeypatch)
    assert isinstance(error, FatalError) and context.spent == {}


def test_a_stream_of_the_responses_api_without_its_last_event_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    response = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "tools": [],
    }
    response |= {"tool_choice": "auto", "status": "in_progress"}
    item = {
        "type": "function_call",
        "id": "i",
        "call_id": "c",
        "name": "delete_all",
        "arguments": "",
        "status": "in_progress",
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "sequence_number": 0, "response": response},
        {
            "type": "response.output_item.added",
            "sequence_number": 1,
            "output_index": 0,
            "item": item,
        },
        {
            "type": "response.function_call_arguments.delta",
            "sequence_number": 2,
            "item_id": "i",
            "output_index": 0,
            "delta": '{"path": "x"}',
        },
        {
            "type": "response.function_call_arguments.done",
            "sequence_number": 3,
            "item_id": "i",
            "output_index": 0,
            "arguments": '{"path": "x"}',
        },
        {
            "type": "response.completed",
            "sequence_number": 4,
            "response": {**response, "status": "completed"},
        },
    ]
    cuts = [_responses(*events[:end]) for end in range(1, len(events))]
    with chat_server(faults={0: [*cuts, _responses(*events)]}) as server:
        for end in range(1, len(events)):
            error, context = decide(server, "openai:m", monkeypatch)
            assert isinstance(error, RetryableError), f"cut behind event {end}"
            assert context.spent["requests"] == 1
        decided, _ = decide(server, "openai:m", monkeypatch)
    assert decided == Command("delete_all", {"path": "x"}, {}, "c", 0)


def test_a_reply_of_any_protocol_is_whole_with_a_reason_or_while_it_is_suspended() -> None:
    from pydantic_ai import messages as theirs

    from perdure.flows.controllers.model.stream_end import reason_of

    parts = [theirs.ToolCallPart("delete_all", None)]
    with pytest.raises(ModelFailed, match="incomplete reply") as failed:
        reason_of(theirs.ModelResponse(parts), "m", is_done=False)
    assert failed.value.billed and isinstance(failed.value.error, RetryableError)
    for response, is_done, reason in (
        (theirs.ModelResponse(parts, finish_reason="length"), False, "length"),
        (theirs.ModelResponse(parts, state="suspended"), False, "stop"),
        (
            theirs.ModelResponse(parts, provider_details={"finish_reason": "a_new_one"}),
            False,
            "stop",
        ),
        (
            theirs.ModelResponse(parts, provider_details={"finish_reason": "max_new_tokens"}),
            False,
            "length",
        ),
        (
            theirs.ModelResponse(parts, provider_details={"finish_reason": "aborted"}),
            False,
            "aborted",
        ),
        (theirs.ModelResponse(parts), True, "tool_call"),
        (
            theirs.ModelResponse(parts, provider_details={"finish_reason": "tool_use"}),
            True,
            "tool_call",
        ),
        (theirs.ModelResponse([theirs.TextPart("words")]), True, "stop"),
    ):
        assert reason_of(response, "m", is_done) == reason
    new = theirs.ModelResponse(parts, provider_details={"finish_reason": "something_new"})
    assert (reason_of(new, "m", False), reason_of(new, "m", False, knows_all=True)) == (
        "stop",
        "something_new",
    )
    paused = theirs.ModelResponse(
        parts, finish_reason="stop", provider_details={"finish_reason": "compaction"}
    )
    assert reason_of(paused, "m", False) == "compaction"


def test_missing_arguments_are_none_only_where_the_reply_is_over() -> None:
    calls = (ToolCall("c0", "delete_all", ""),)
    assert decisions_of(Reply("", calls, ended="tool_call"), NAMES) == [
        Command("delete_all", {}, {}, "c0", 0)
    ]
    [bad] = decisions_of(Reply("", calls, ended="length"), NAMES)
    assert isinstance(bad, BadReply) and bad.command == Command("delete_all", {}, {}, "c0", 0)
    assert "cut off at its limit of tokens (max_tokens)" in str(bad)


def test_arguments_that_were_still_to_come_at_the_limit_are_not_an_empty_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with chat_server([Says("", [("delete_all", "")], ended="length")]) as server:
        monkeypatch.setenv("HF_TEST_KEY", "k")
        context = RoundContext("tidy up", endpoint=Endpoint("m", server.url), commands=COMMANDS)
        with pytest.raises(BadReply, match="cut off at its limit"):
            call(ModelController().decide, context, context)
