"""The events of a streamed response: numbered by time, replayed alike, and honest about text that
was given up.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import InvalidInput, Run, RunStatus
from perdure.worker.domain.execution_state import ExecutionState
from perdure.worker.domain.stream import StreamItem

SUBMITTED = datetime(2026, 11, 26, 12, tzinfo=UTC)
BEGAN = int(SUBMITTED.timestamp() * 1000)


def run_that_is(status: RunStatus, answer: Any = None) -> Run:
    return Run(
        "r", "talk", "go", {}, status, ExecutionState(current_node="Controller"), answer, {}, "broken", SUBMITTED, SUBMITTED,
    )  # fmt: skip


def events_of(items: list[StreamItem], after: int | None = None, answer: Any = "ab") -> list[Any]:
    from perdure.worker.web.openai_api.stream_events import ResponseEvents

    run = run_that_is(RunStatus.COMPLETED, answer)
    events = ResponseEvents(run, after)
    told = [*events.begin()]
    for item in items:
        told += events.translate(item)
    return told + events.finish(run)


def item(
    at: int, kind: str, step: int = 0, attempt: int = 1, text: str = "", seq: int = 0
) -> StreamItem:
    """Make an item ``at`` ms after the submission."""
    place = f"{BEGAN + at}-{seq}"
    position = f"0-0/{place}" if kind in ("text", "retracted", "trimmed") else f"{place}/0-0"
    return StreamItem(
        position, kind, step, attempt, kind="text" if kind == "text" else "", text=text
    )


WHOLE = [
    item(1, "submitted"),
    item(5, "text", text="a", seq=0),
    item(5, "text", text="b", seq=1),
    item(5, "committed"),
    item(9, "completed"),
]


def kinds(events: list[Any]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_text_that_is_the_answer_is_not_sent_twice() -> None:
    told = kinds(events_of(WHOLE))
    assert told == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert kinds(events_of(WHOLE, answer="c")).count("output_item.done") == 2


def test_text_that_is_given_up_is_not_part_of_the_final_response() -> None:
    told = events_of([item(5, "text", text="x"), item(6, "retracted"), *WHOLE[1:]])
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    assert [each["status"] for each in done] == ["incomplete", "completed"]
    assert len({each["id"] for each in done}) == 2
    [message] = told[-1]["response"]["output"]
    assert message["content"][0]["text"] == "ab"


items = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from(
            ["text", "text", "text", "committed", "retracted", "interrupted", "resumed"]
        ),
        st.integers(0, 3),
        st.sampled_from(["x", "yz"]),
    ),
    max_size=25,
)


@given(items, st.data())
def test_a_client_that_was_cut_anywhere_gets_the_rest(
    given_items: Any, data: st.DataObject
) -> None:
    made = [
        item(at, kind, step, text=text, seq=number)
        for number, (at, kind, step, text) in enumerate(
            sorted(given_items, key=lambda each: each[0])
        )
    ]
    whole = events_of(made)
    numbers = [event["sequence_number"] for event in whole]
    assert numbers == sorted(set(numbers)) and numbers[-1] < 2**53
    place = data.draw(st.integers(0, len(whole) - 1))
    assert events_of(made, numbers[place]) == whole[place + 1 :]


def test_numbers_stay_when_older_text_is_gone_meanwhile() -> None:
    gone = [item(2, "text", text="thinking"), item(3, "committed")]
    rest = [replace(each, step=1) for each in WHOLE[1:]]
    first = events_of([WHOLE[0], *gone, *rest])
    place = kinds(first).index("output_text.done") + 3
    later = events_of([WHOLE[0], gone[1], *rest], first[place]["sequence_number"])
    assert [event["sequence_number"] for event in later] == [
        event["sequence_number"] for event in first[place + 1 :]
    ]


def test_text_whose_beginning_is_gone_is_not_complete() -> None:
    told = events_of([WHOLE[0], item(4, "trimmed"), *WHOLE[2:]])
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    assert [(each["status"], each["content"][0]["text"]) for each in done] == [
        ("incomplete", "b"), ("completed", "ab"),
    ]  # fmt: skip


def test_text_that_comes_late_of_an_attempt_that_was_given_up_spoils_no_later_one() -> None:
    late = [item(6, "trimmed"), item(6, "text", text="x"), item(7, "retracted")]
    again = [replace(each, attempt=2) for each in WHOLE[1:4]]
    told = events_of([WHOLE[0], item(2, "text", text="x"), item(3, "retracted"), *late, *again])
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    assert [each["status"] for each in done] == ["incomplete", "incomplete", "completed"]


def test_ten_years_fit_into_a_number() -> None:
    late = 10 * 366 * 86_400_000
    told = events_of([item(late, "text", text="x", seq=10**6), item(late, "committed", seq=10**6)])
    assert told[-1]["sequence_number"] < 2**53


@pytest.mark.parametrize(
    ("items", "goal"),
    [
        ("go", "go"),
        ([{"role": "user", "content": "go"}], "go"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "go"}]}], "go"),
        (
            [
                {"role": "developer", "content": "be brief"},
                {"role": "user", "content": "go"},
                {"type": "reasoning", "id": "rs", "summary": []},
                {"type": "function_call", "name": "approval", "arguments": "{}", "call_id": "r/1:1"},
                {"type": "function_call_output", "call_id": "r/1:1", "output": "approve"},
                {"type": "message", "role": "user", "content": "on"},
            ],
            "developer: be brief\n\nuser: go\n\nassistant: approval({})\n\ntool: approve\n\nuser: on",
        ),
    ],
)  # fmt: skip
def test_a_conversation_is_a_goal(items: Any, goal: str) -> None:
    from perdure.worker.web.openai_api.requests import goal_of, outputs_of

    assert goal_of(items) == goal
    assert outputs_of(items)[1], "it ends with a message"


def test_what_is_no_text_is_refused() -> None:
    from perdure.worker.web.openai_api.requests import goal_of

    for wrong in (
        [],
        [{"role": "system", "content": "x"}],
        [{"role": "user", "content": [{"type": "input_audio"}]}],
        [{"type": "computer_call"}],
        [{"role": "king", "content": "x"}],
    ):
        with pytest.raises(InvalidInput):
            goal_of(wrong)  # type: ignore[arg-type]


def test_a_conversation_goes_on_with_the_roles_that_it_has() -> None:
    from perdure.worker.web.openai_api.requests import goal_of

    second = goal_of("two", "be brief", ("one", "1"))
    assert second == "system: be brief\n\nuser: one\n\nassistant: 1\n\nuser: two"
    third = goal_of([{"role": "user", "content": "three"}], "be brief", (second, "2"))
    assert third == f"{second}\n\nassistant: 2\n\nuser: three"
    assert goal_of("b", None, ("user: of what?", "a")) == (
        "user: user: of what?\n\nassistant: a\n\nuser: b"
    ), "one message is no conversation"


def output(call_id: str = "a/b:c/3:1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "yes", **more}


USER = {"role": "user", "content": "on"}
CALL = {"type": "function_call", "name": "question", "arguments": "{}", "call_id": "a/b:c/3:1"}
#: A stored item of the assistant, as clients send it that do not repeat its content.
REFERENCE = {"type": "item_reference", "id": "fc_1"}


@pytest.mark.parametrize(
    ("items", "outputs", "has_message"),
    [
        ("text", [], True),
        ([USER], [], True),
        ([output()], [("a/b:c", "3:1", "yes")], False),
        ([{"role": "tool", "tool_call_id": "r/1:1", "content": "x"}], [("r", "1:1", "x")], False),
        ([USER, CALL, output()], [("a/b:c", "3:1", "yes")], False),
        ([output("r/1:1"), CALL, output()], [("a/b:c", "3:1", "yes")], False),
        ([USER, REFERENCE, output()], [("a/b:c", "3:1", "yes")], False),
        (
            [USER, REFERENCE, output("r/1:1"), REFERENCE, output()],
            [("a/b:c", "3:1", "yes")],
            False,
        ),
        (
            [USER, {"type": "reasoning", "summary": []}, output()],
            [("a/b:c", "3:1", "yes")],
            False,
        ),
        (
            [USER, {"type": "custom_tool_call", "call_id": "c"}, output()],
            [("a/b:c", "3:1", "yes")],
            False,
        ),
        ([USER, CALL, output(), USER], [("a/b:c", "3:1", "yes")], True),
        ([USER, CALL, output(), {"role": "assistant", "content": "done"}, USER], [], True),
        ([output("call_1"), USER], [], True),
    ],
)
def test_the_new_items_of_a_request_have_the_answer_to_a_question(
    items: Any, outputs: list[Any], has_message: bool
) -> None:
    from perdure.worker.web.openai_api.requests import outputs_of

    assert outputs_of(items) == (outputs, has_message)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"role": "tool", "tool_call_id": "call_1", "content": "yes"}], "made by no run"),
        ([USER, output()], "message beside the answer"),
        ([CALL, USER, output()], "message beside the answer"),
        ([REFERENCE, USER, output()], "message beside the answer"),
        ([{"role": "developer", "content": "be brief"}, output()], "message beside the answer"),
        ([output(), output(output="no")], "one question at a time"),
        ([output("call_1"), output()], "one question at a time"),
        ([output(output=None)], "has no output"),
    ],
)
def test_an_output_that_is_not_the_answer_to_one_question_is_refused(
    items: Any, words: str
) -> None:
    from perdure.worker.web.openai_api.requests import outputs_of

    with pytest.raises(InvalidInput, match=words):
        outputs_of(items)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("left", "left"),
        ('{"a": [1]}', {"a": [1]}),
        ("1e5", 100000.0),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('"\\u0000"', '"\\u0000"'),
        ('"\\ud800"', '"\\ud800"'),
        ("[" * 99_999, "[" * 99_999),
        ("1" * 5_000, "1" * 5_000),
        ("007", "007"),
    ],
)
def test_an_answer_is_strict_json_or_else_a_text(text: str, answer: Any) -> None:
    from perdure.worker.web.openai_api.requests import read_output

    assert read_output(text) == answer
