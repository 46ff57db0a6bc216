"""What of a history a model is shown: the window, and the messages made of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Command, History, Turn
from perdure.flows.controllers.model.chat import (
    AnswerMessage,
    AssistantMessage,
    ChatMessage,
    ToolCall,
    UserMessage,
)
from perdure.flows.controllers.model.history_window import AT_ONCE, Group, Window, groups_of, shown
from perdure.flows.controllers.model.messages import bytes_of, group_messages, history_messages
from perdure.flows.controllers.model.tool_names import ToolNames

NAMES = ToolNames(["read_file", "test.double"])


def reply(number: int, calls: int) -> Group:
    """A reply of so many calls, each answered; 0: a reply that was none."""
    if not calls:
        return (Turn(None, {"error": f"{number}"}),)
    return tuple(
        Turn(Command("read_file", {}, call=f"{number}.{part}", part=part), number)
        for part in range(calls)
    )


def history(groups: list[Group], reads: list[tuple[int, int]] | None = None) -> History:
    turns = [turn for group in groups for turn in group]

    def load(start: int, stop: int) -> list[Turn]:
        if reads is not None:
            reads.append((start, stop))
        return turns[start:stop]

    return History(len(turns), turns[-1:], load)


SIZES = st.lists(st.integers(0, 40), max_size=90)


@given(sizes=SIZES, first=st.integers(0, 5), last=st.integers(1, 5), tokens=st.integers(1, 300))
def test_whole_groups_are_shown_in_order_none_twice_and_the_gap_is_counted(
    sizes: list[int], first: int, last: int, tokens: int
) -> None:
    groups = [reply(number, size) for number, size in enumerate(sizes)]
    seen = shown(history(groups), Window(first, last, tokens), len)
    assert list(seen.first) == groups[: len(seen.first)]
    assert list(seen.last) == groups[len(groups) - len(seen.last) :]
    assert len(seen.first) + len(seen.last) <= len(groups)
    assert seen.left_out == sum(map(len, groups)) - sum(map(len, seen.first)) - sum(
        map(len, seen.last)
    )
    assert len(seen.first) <= first and len(seen.last) <= last
    assert not groups or seen.last, "the newest group is shown however large it is"
    assert sum(map(len, seen.first)) + sum(map(len, seen.last[:-1])) <= tokens


def test_what_fits_is_shown() -> None:
    groups = [reply(number, 1) for number in range(20)]
    assert shown(history(groups), Window(5, 15, 20), len).left_out == 0
    assert shown(history(groups), Window(5, 14, 20), len).left_out == 1
    assert shown(history(groups), Window(5, 15, 19), len).left_out == 1
    newest = shown(history(groups), Window(5, 15, 10), len)
    assert (len(newest.first), len(newest.last)) == (0, 10), (
        "the newest come first where room is short"
    )


def test_a_long_history_is_read_at_its_ends_alone() -> None:
    reads: list[tuple[int, int]] = []
    groups = [reply(number, 2) for number in range(5_000)]
    seen = shown(history(groups, reads), Window(3, 40, 10_000), len)
    assert (len(seen.first), len(seen.last)) == (3, 40)
    assert sum(stop - start for start, stop in reads) <= 2 * 43 + 2 * AT_ONCE


def test_a_group_begins_with_part_0_or_with_no_command() -> None:
    groups = [reply(0, 2), reply(1, 0), reply(2, 1), reply(3, 3)]
    assert groups_of([turn for group in groups for turn in group]) == groups


THOUGHT = {"thought": "hm"}


@pytest.mark.parametrize(
    ("group", "messages"),
    [
        (
            (
                Turn(Command("test.double", {"n": 1}, THOUGHT, "a", 0), 2),
                Turn(Command("read_file", {}, {}, "b", 1), {"error": "no"}),
            ),
            [
                AssistantMessage(
                    "hm",
                    (ToolCall("a", "test_double", '{"n":1}'), ToolCall("b", "read_file", "{}")),
                ),
                AnswerMessage("a", "test_double", "2"),
                AnswerMessage("b", "read_file", '{"error":"no"}'),
            ],
        ),
        ((Turn(None, {"error": "what?"}),), [UserMessage('Observation: {"error":"what?"}')]),
        (
            (Turn(Command("read_file", {}, THOUGHT), "text"),),
            [
                AssistantMessage('{"thought": "hm", "command": "read_file", "command_args": {}}'),
                UserMessage("Observation: text"),
            ],
        ),
    ],
)
def test_each_call_is_answered_and_what_was_said_in_words_is_answered_in_words(
    group: Group, messages: list[ChatMessage]
) -> None:
    assert group_messages(group, NAMES, tools=True) == messages


def test_without_tools_both_sides_speak_json() -> None:
    [said, told] = group_messages(
        (Turn(Command("test.double", {"n": 1}, THOUGHT, "a", 0), 2),), NAMES, tools=False
    )
    assert said == AssistantMessage(
        '{"thought": "hm", "command": "test.double", "command_args": {"n":1}}'
    )
    assert told == UserMessage("Observation: 2")


def test_a_gap_is_told() -> None:
    groups = [reply(number, 1) for number in range(9)]
    texts: list[Any] = [
        each.text
        for each in history_messages(
            shown(history(groups), Window(1, 2, 100), len), NAMES, tools=True
        )
    ]
    assert texts == [
        "",
        "0",
        "(Here 6 earlier steps are left out; they have been carried out.)",
        "",
        "7",
        "",
        "8",
    ]


def test_bytes_are_counted_of_texts_calls_and_tools() -> None:
    few = bytes_of([AssistantMessage("é" * 10, (ToolCall("a", "n", "x" * 100),))])
    assert 120 <= few <= 200
    assert bytes_of([], [{"name": "n", "description": "d" * 500, "parameters": {}}]) > 500


def test_a_slice_of_a_history_reads_what_it_lacks_once() -> None:
    reads: list[tuple[int, int]] = []
    groups = [reply(number, 1) for number in range(1_000)]
    long = history(groups, reads)
    assert long[-1].observation == 999 and reads == []
    assert [turn.observation for turn in long[10:13]] == [10, 11, 12]
    assert [turn.observation for turn in long[8:12]] == [8, 9, 10, 11]
    assert reads == [(10, 13), (8, 10)]
    assert long[0].observation == 0 and reads[2:] == [(0, 100)]
    assert [turn.observation for turn in long] == list(range(1_000))
    assert len(reads) == 3 + 9 and long[500:400] == [] and long[::-250][0].observation == 999


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=40),
    gone=st.integers(1, 200),
    last=st.integers(1, 60),
)
def test_of_a_history_whose_oldest_turns_are_gone_whole_groups_are_shown_behind_the_gap(
    sizes: list[int], gone: int, last: int
) -> None:
    groups = [reply(number, size) for number, size in enumerate(sizes)]
    turns = [turn for group in groups for turn in group]
    gone = min(gone, len(turns))
    left = History(len(turns), turns[gone:][-1:], lambda start, stop: turns[start:stop], gone)
    seen = shown(left, Window(1, last, 1_000_000), len)
    begins = [sum(map(len, groups[:place])) for place in range(len(groups))]
    whole = [group for begin, group in zip(begins, groups, strict=True) if begin >= gone]
    assert seen.first == () and list(seen.last) == whole[-last:]
    assert seen.left_out == len(turns) - sum(map(len, seen.last))
