"""A model's view of a history: the window, and the messages made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure import Command, History, Turn
from perdure.flows.controllers.model.chat import (
    AnswerMessage,
    AssistantMessage,
    ChatMessage,
    ToolCall,
    UserMessage,
)
from perdure.flows.controllers.model.history_window import (
    AT_ONCE,
    MARK,
    SUMMARY,
    Group,
    Window,
    WindowView,
    groups_of,
    is_summary,
    shown,
)
from perdure.flows.controllers.model.messages import bytes_of, group_messages, history_messages
from perdure.flows.controllers.model.tool_names import ToolNames

NAMES = ToolNames(["read_file", "test.double"])


def reply(number: int, calls: int) -> Group:
    """Make a reply of this number of calls, each answered; 0: a reply that was none."""
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
    assert len(seen.first) + len(seen.last) <= min(len(groups), first + last)
    assert seen.left_out == sum(map(len, groups)) - sum(map(len, seen.first)) - sum(
        map(len, seen.last)
    )
    assert not groups or seen.last, "the newest group is shown however large it is"
    assert len(seen.last) <= 1 or sum(map(len, (*seen.first, *seen.last))) <= tokens


def test_what_fits_is_shown_and_of_what_does_not_the_oldest_and_half() -> None:
    groups = [reply(number, 1) for number in range(20)]
    assert shown(history(groups), Window(5, 15, 20), len).left_out == 0
    for window in (Window(5, 14, 20), Window(5, 15, 19)):
        seen = shown(history(groups), window, len)
        assert (len(seen.first), len(seen.last)) == (min(5, window.tokens // 4), 7)
    seen = shown(history(groups), Window(5, 15, 8), len)
    assert (len(seen.first), len(seen.last)) == (2, 3), "the oldest take a quarter of the tokens"


class Conversation:
    """A history to which replies are added, each with the window of its request."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.groups: list[Group] = []
        self.seen = self.look()
        self.drops: list[int] = []

    def look(self) -> WindowView:
        return shown(history(self.groups), self.window, len)

    def add(self, calls: int) -> WindowView:
        group = reply(len(self.groups), calls)
        if self.seen.dropped_to is not None:
            self.drops.append(len(self.groups))
            command = group[0].command
            if command is not None:
                marked = replace(command, extras={MARK: self.seen.dropped_to})
                group = (replace(group[0], command=marked), *group[1:])
        self.groups.append(group)
        self.seen = self.look()
        return self.seen


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=300),
    first=st.integers(0, 3),
    last=st.integers(1, 60),
    tokens=st.integers(10, 300),
)
@example(sizes=[2, 9], first=1, last=1, tokens=10)
def test_a_request_begins_as_the_one_before_it_until_the_window_drops_to_half(
    sizes: list[int], first: int, last: int, tokens: int
) -> None:
    run = Conversation(Window(first, last, tokens))
    for size in sizes:
        before = run.seen
        seen = run.add(size)
        if seen.dropped_to is None:
            assert seen.left_out == before.left_out
            assert [*seen.first, *seen.last] == [*before.first, *before.last, run.groups[-1]]
            continue
        # Of two groups, the first is kept as such and the last too: that drop leaves nothing out
        # yet.
        assert seen.left_out > before.left_out or seen.left_out == 0
        fitted = sum(map(len, (*before.first, *before.last))) + size
        assert fitted > tokens or len(before.first) + len(before.last) >= last
        assert len(seen.last) <= max(1, last // 2)
        assert sum(map(len, seen.last)) <= tokens / 2 or len(seen.last) == 1
    assert run.look() == run.seen, "another worker finds the same place"


def test_a_window_of_replies_drops_by_half_of_it() -> None:
    run = Conversation(Window(1, 50, 60_000))
    sizes = [len(run.add(1).last) for _ in range(300)]
    assert max(sizes) == 51 and min(sizes[100:]) == 25 and max(sizes[100:]) == 50
    assert run.drops == [52, *range(78, 300, 26)]


def test_a_drop_that_a_reply_without_a_command_cannot_keep_is_made_again_with_the_next() -> None:
    run = Conversation(Window(1, 10, 1_000))
    for _ in range(12):
        run.add(1)
    run.add(0)
    assert [len(view.last) for view in (run.seen, run.add(1), run.add(1))] == [5, 6, 7]
    assert run.drops == [12, 13]


def test_a_window_that_was_made_smaller_meanwhile_drops_again() -> None:
    run = Conversation(Window(1, 10, 1_000))
    for _ in range(20):
        run.add(1)
    assert len(run.seen.last) > 4
    run.window = Window(1, 4, 1_000)
    assert (len(run.look().last), run.look().dropped_to) == (2, 18)
    run.window = Window(30, 10, 1_000)
    assert len(run.look().first) == run.look().last[0][0].observation - run.look().left_out


def test_a_long_history_is_read_at_its_ends_alone() -> None:
    reads: list[tuple[int, int]] = []
    groups = [reply(number, 2) for number in range(5_000)]
    seen = shown(history(groups, reads), Window(3, 40, 10_000), len)
    assert (len(seen.first), len(seen.last)) == (3, 20)
    assert sum(stop - start for start, stop in reads) <= 2 * 44 + 3 * AT_ONCE


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
    gap = "(Here 7 earlier steps are left out; each of them has been answered.)"
    assert texts == ["", "0", gap, "", "8"]


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
    assert seen.first == ()
    if len(whole) <= 1 + last:
        assert list(seen.last) == whole
    else:
        assert len(seen.last) <= last and list(seen.last) == whole[-len(seen.last) :]
    assert seen.left_out == len(turns) - sum(map(len, seen.last))


def summary(mark: int, text: str) -> Group:
    """Make a summary that the model wrote before the window dropped to a turn."""
    return (Turn(Command("summarize", {}, {SUMMARY: True, MARK: mark}), text),)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=200),
    first=st.integers(0, 2),
    last=st.integers(1, 40),
    tokens=st.integers(10, 200),
)
@example(sizes=[2, 9], first=1, last=1, tokens=10)
def test_a_summary_is_asked_for_once_before_each_drop_and_takes_the_place_of_what_is_left_out(
    sizes: list[int], first: int, last: int, tokens: int
) -> None:
    window = Window(first, last, tokens)
    groups: list[Group] = []
    seen = shown(history(groups), window, len, compacts=True)
    for number, size in enumerate(sizes):
        groups.append(reply(number, size))
        before, seen = seen, shown(history(groups), window, len, compacts=True)
        if seen.dropped_to is not None:
            assert seen.left_out == 0, "a drop that leaves nothing out needs no summary"
            return
        # The request for a summary too begins as the one before it.
        assert seen.dropped_to is None and seen.left_out == before.left_out
        assert [*seen.first, *seen.last] == [*before.first, *before.last, groups[-1]]
        assert seen.summary == before.summary
        if seen.compacts_to is None:
            continue
        groups.append(summary(seen.compacts_to, f"until {number}"))
        seen = shown(history(groups), window, len, compacts=True)
        assert (seen.compacts_to, seen.dropped_to) == (None, None), "it is not asked for twice"
        assert seen.summary == f"until {number}" and groups[-2] in seen.last
        assert len(seen.last) <= max(1, last // 2) and not any(map(is_summary, seen.last))
        assert seen.left_out > before.left_out


def test_a_summary_stands_in_the_gap_and_not_where_it_was_written() -> None:
    groups = [*(reply(number, 1) for number in range(6)), summary(4, "All is well."), reply(6, 1)]
    view = shown(history(groups), Window(1, 8, 100), len, compacts=True)
    texts = [each.text for each in history_messages(view, NAMES, tools=True)]
    gap = (
        "(Here 3 earlier steps are left out; each of them has been answered. Your summary of them:)"
    )
    assert texts == ["", "0", f"{gap}\n\nAll is well.", "", "4", "", "5", "", "6"]
    empty = [*groups[:6], summary(4, ""), groups[7]]
    view = shown(history(empty), Window(1, 8, 100), len, compacts=True)
    assert history_messages(view, NAMES, tools=True)[2] == UserMessage(
        "(Here 3 earlier steps are left out; each of them has been answered.)"
    )


def test_a_summary_among_the_oldest_turns_is_not_shown() -> None:
    assert group_messages(summary(4, "All is well."), NAMES, tools=True) == []


def test_a_window_that_was_made_much_smaller_drops_without_a_summary() -> None:
    groups = [reply(number, 1) for number in range(40)]
    view = shown(history(groups), Window(1, 4, 100), len, compacts=True)
    assert view.compacts_to is None and (view.dropped_to, len(view.last)) == (38, 2)
