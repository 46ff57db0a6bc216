"""A run's stream as the response of an assistant, item by item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.flows.core.outcomes import Command, Turn
from perdure.flows.core.summaries import digest
from perdure.worker.domain.stream import StreamItem

if TYPE_CHECKING:
    from perdure.worker.web.ui_streams.writer import UiEvent


def text(piece: str, kind: str = "text", part: str = "", step: int = 0) -> StreamItem:
    return StreamItem("1-0/1-0", "text", step, 1, kind=kind, part=part, text=piece)


def committed(step: int, **data: Any) -> StreamItem:
    return StreamItem("1-0/1-0", "committed", step, 1, data=data)


def events(items: list[StreamItem], turns: list[Turn] | None = None) -> list[UiEvent]:
    from perdure.worker.web.ui_streams.ai_sdk import AiSdkWriter
    from perdure.worker.web.ui_streams.response import UiResponse
    from perdure.worker.web.ui_streams.tool_results import ToolResults, told_by_event

    response, results = UiResponse("r", AiSdkWriter()), ToolResults()
    found: list[UiEvent] = []
    for item in items:
        tools = results.of(item.data, turns or []) if response.needs_results(item) else []
        tools = told_by_event(item.data) if tools is None else tools
        found += response.take(item, None, tools)
    return found


def kinds(found: list[UiEvent]) -> list[str]:
    return [each["type"] for each in found]


def test_two_calls_of_a_tool_at_once_are_two_calls_with_a_result_each() -> None:
    calls = [Command("look", {"at": "a"}), Command("look", {"at": "b"})]
    turns = [Turn(call, f"seen {call.args['at']}") for call in calls]
    pieces = ['{"at": ', '"a"}', '{"at"', ': "b"}']
    found = events(
        [
            *(text(piece, "arguments", "look") for piece in pieces),
            committed(0, command="look", args='{"at":"a"}', calls={"look": 2}),
            committed(1, observation="2 calls: look: seen a · look: seen b", digest=digest(["seen a", "seen b"])),
        ],
        turns,
    )  # fmt: skip
    inputs = {each["toolCallId"]: each["input"] for each in found if "input" in each}
    outputs = {each["toolCallId"]: each["output"] for each in found if "output" in each}
    assert list(inputs.values()) == [{"at": "a"}, {"at": "b"}]
    assert {tuple(inputs[call].values()): output for call, output in outputs.items()} == {
        ("a",): "seen a",
        ("b",): "seen b",
    }


def test_the_answer_in_the_arguments_of_finish_is_text() -> None:
    pieces = ['{"ans', 'wer": "The pr', "ice is \\u", '00e9."', "}"]
    found = events(
        [*(text(piece, "arguments", "finish") for piece in pieces), committed(0, command="finish")]
    )
    assert "".join(each.get("delta", "") for each in found) == "The price is é."
    assert kinds(found) == [
        "start-step",
        "text-start",
        *["text-delta"] * 3,
        "text-end",
        "finish-step",
    ]


def test_a_reply_with_an_unknown_call_gets_its_error() -> None:
    turn = Turn(Command("lok", {}), {"error": "no command 'lok'"})
    found = events(
        [
            text("{}", "arguments", "lok"),
            committed(0, command="lok", args="{}", observation='{"error":"no command \'lok\'"}'),
        ],
        [turn],
    )
    assert found[-1] == {
        "type": "tool-output-error",
        "toolCallId": "r.0.1.1",
        "errorText": "no command 'lok'",
    }


def test_a_result_that_the_history_does_not_have_is_told_as_the_event_has_it() -> None:
    found = events(
        [committed(1, command="look", args='{"at":"a"}', observation="seen…", digest="x")]
    )
    assert found[-1]["output"] == "seen…" and found[-2]["input"] == {"at": "a"}


def test_texts_of_parts_that_come_at_once_are_kept_apart_and_words_of_a_flow_are_data() -> None:
    found = events(
        [
            text("a", part="x"),
            text("b", part="y"),
            text("c", part="x"),
            text("l", "log"),
            committed(0),
        ]
    )
    texts: dict[str, str] = {}
    for each in found:
        if "delta" in each:
            texts[each["id"]] = texts.get(each["id"], "") + each["delta"]
    assert list(texts.values()) == ["ac", "b"]
    assert {"type": "data-live", "data": {"kind": "log", "part": "", "text": "l"}} in found


def test_nothing_is_taken_back_that_was_not_shown() -> None:
    retracted = StreamItem("1-0/1-0", "retracted", 0, 1)
    assert events([retracted, committed(0)]) == []


def test_of_two_calls_of_a_tool_the_question_is_about_the_one_with_its_arguments() -> None:
    from perdure.worker.web.ui_streams.ai_sdk import AiSdkWriter
    from perdure.worker.web.ui_streams.response import UiResponse
    from perdure.worker.web.ui_streams.writer import UiToolCall

    first = UiToolCall("1", "remove", {"path": "a"}, approved=True)
    second = UiToolCall("2", "remove", {"path": "b"})
    response = UiResponse("r", AiSdkWriter(), [first, second])
    assert response._call_of("remove", {"path": "b"}) is second
    assert response._call_of("remove", {"path": "a"}) is first
    assert response._call_of("remove", {"path": "c"}, is_asked=True) is second, "still undecided"


def test_the_results_of_two_calls_of_a_tool_come_to_the_calls_with_their_arguments() -> None:
    from perdure.worker.web.ui_streams.ai_sdk import AiSdkWriter
    from perdure.worker.web.ui_streams.response import UiResponse
    from perdure.worker.web.ui_streams.writer import UiToolCall

    calls = [
        UiToolCall("1", "remove", {"path": "a"}, approved=False),
        UiToolCall("2", "remove", {"path": "b"}, approved=True),
    ]
    response = UiResponse("r", AiSdkWriter(), calls)
    results = [
        ("remove", {"path": "changed"}, "removed changed"),
        ("remove", {"path": "a"}, {"refused": "no"}),
    ]
    found = [*response.take(committed(3, observation="2 calls: ..."), None, results)]
    assert [(each["type"], each["toolCallId"]) for each in found] == [
        ("tool-output-denied", "1"),
        ("tool-output-available", "2"),
    ]


def test_a_request_of_an_agent_to_its_model_is_no_call_of_a_tool() -> None:
    def did(step: str, **facts: Any) -> list[str]:
        reply = {"parts": [{"part_kind": "tool-call"}]}
        data = {"command": step, "did": [step], "observation": "x", **facts}
        return kinds(events([committed(1, **data)], [Turn(Command(step), {"result": reply})]))

    assert did("clerk.model", model="gpt") == did("clerk.model.2", model="gpt") == []
    assert did("model.3", model="gpt") == []
    assert "tool-output-available" in did("model"), "a step that asks no model is one"
    assert "tool-output-available" in did("summarize", model="gpt"), (
        "and so is one that asks itself"
    )


def test_a_question_is_about_the_call_whose_arguments_are_among_its_own() -> None:
    from perdure.worker.web.ui_streams.writer import UiToolCall

    calls = [UiToolCall(str(at), "pay", {"at": at}) for at in range(3)]
    asked = {"at": 1, "euros": 100}  # with the default of an argument that the model left out
    assert max(calls, key=lambda call: call.fits(asked)).id == "1"
    assert max(calls, key=lambda call: call.fits({"at": 7})).id == "0", "the first, if none fits"
    whole = UiToolCall("whole", "pay", asked)
    assert max([*calls, whole], key=lambda call: call.fits(asked)) is whole
