"""A model's reply becomes decisions, or a bad reply that names its fault."""

from __future__ import annotations

import json

import pytest

from perdure import BadReply, Command
from perdure.flows.commands.replies import MOST_CALLS, read_reply
from perdure.flows.controllers.model.chat import Reply, ToolCall
from perdure.flows.controllers.model.parse_reply import (
    MAX_LENGTH,
    THOUGHT_LENGTH,
    decisions_of,
    is_in_words,
)
from perdure.flows.controllers.model.thoughts import without_thoughts
from perdure.flows.controllers.model.tool_names import ToolNames

NAMES = ToolNames(["read_file", "test.double", "finish"])


def calls(*several: tuple[str, str], text: str = "", ended: str = "tool_call") -> Reply:
    return Reply(
        text,
        tuple(ToolCall(f"c{part}", name, args) for part, (name, args) in enumerate(several)),
        ended=ended,
    )


def test_each_call_is_a_command_in_its_place_and_the_first_has_the_thought() -> None:
    assert decisions_of(
        calls(("test_double", '{"n": 1}'), ("finish", '{"answer": 2}'), text=" so "), NAMES
    ) == [
        Command("test.double", {"n": 1}, {"thought": "so"}, "c0", 0),
        Command("finish", {"answer": 2}, {}, "c1", 1),
    ]


def test_a_call_without_arguments_has_none() -> None:
    [command] = decisions_of(calls(("read_file", "")), NAMES)
    assert command == Command("read_file", {}, {}, "c0", 0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            '{"n": ',
            "the arguments of command 'test.double' are not JSON (Expecting value: line 1 column 7 (char 6)): '{\"n\": '",
        ),
        ("[1]", "the arguments of command 'test.double' are [1]; expected an object"),
        ('{"n": NaN}', "the arguments of command 'test.double' at n is nan"),
        ('{"n": ' * 9000, "the arguments of command 'test.double' are not JSON"),
        ('{"n": ' + "1" * 5000 + "}", "the arguments of command 'test.double' are not JSON"),
    ],
)
def test_arguments_that_do_not_read_are_a_bad_reply_that_answers_the_call(
    arguments: str, told: str
) -> None:
    good, bad = decisions_of(calls(("read_file", "{}"), ("test_double", arguments)), NAMES)
    assert isinstance(good, Command) and isinstance(bad, BadReply)
    assert str(bad).startswith(told) and len(str(bad)) < 1000
    assert bad.command == Command("test.double", {}, {}, "c1", 1)


def test_calls_with_one_id_are_told_apart() -> None:
    reply = Reply(
        "",
        (
            ToolCall("same", "read_file", "{}"),
            ToolCall("same", "read_file", "{}"),
            ToolCall("", "read_file", "{}"),
        ),
    )
    ids = [each.call for each in decisions_of(reply, NAMES) if isinstance(each, Command)]
    assert ids == ["same", "same_1", "call_2"]


def test_a_long_thought_is_cut() -> None:
    [command] = decisions_of(calls(("read_file", "{}"), text="x" * 50_000), NAMES)
    assert isinstance(command, Command) and len(command.extras["thought"]) == THOUGHT_LENGTH
    assert "this text had 50,000 characters" in command.extras["thought"], "its model reads it"


def test_each_call_of_a_reply_is_decided_and_far_too_many_are_one_bad_reply() -> None:
    many = [("read_file", "{}")] * (MOST_CALLS + 6)
    assert len(decisions_of(calls(*many), NAMES)) == MOST_CALLS + 6
    with pytest.raises(BadReply, match="at most 64 are carried out"):
        decisions_of(calls(*many * 4), NAMES)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            Reply("I am done."),
            "the reply calls no command: 'I am done.'; call one of the commands; call finish with the answer",
        ),
        (Reply("  "), "the reply is empty; call one"),
        (
            Reply("", ended="length"),
            "the reply is empty: it used up its limit of tokens (max_tokens); call one",
        ),
        (
            Reply("", ended="content_filter"),
            "the reply is empty: its provider blocked it; call one",
        ),
        (Reply('{"command": "x", ', ended="length"), "the reply was cut off at its limit"),
        (
            calls(("read_file", "x" * MAX_LENGTH)),
            f"the reply has {MAX_LENGTH + 9} characters, at most {MAX_LENGTH} are allowed",
        ),
    ],
)
def test_a_reply_that_decides_nothing_is_told_so(reply: Reply, told: str) -> None:
    with pytest.raises(BadReply) as bad:
        decisions_of(reply, NAMES)
    assert str(bad.value).startswith(told)
    assert ("cut off at its limit" in str(bad.value)) == (
        reply.ended == "length" and bool(reply.text)
    )


def test_a_command_without_arguments_is_told_so_in_the_json_format() -> None:
    for text in ('{"command": "read_file"}', '{"command": "read_file", "args": {}}'):
        with pytest.raises(BadReply, match="no key 'command_args'"):
            decisions_of(Reply(text), NAMES)


def test_a_text_in_the_seeds_format_is_taken() -> None:
    said = {"thought": "t", "plan": ["p"], "command": "test_double", "command_args": None}
    [command] = decisions_of(Reply(f"Here:\n```json\n{json.dumps(said)}\n```"), NAMES)
    assert command == Command("test.double", {}, {"thought": "t", "plan": ["p"]})


@pytest.mark.parametrize("tools", [True, False])
@pytest.mark.parametrize("ended", ["length", "abort", "error", "content_filter"])
def test_a_command_that_a_cut_text_quotes_is_not_carried_out(ended: str, tools: bool) -> None:
    text = f'Wrong would be {ONE}. Right is: {{"command": "fin'
    for said in (text, ONE):
        with pytest.raises(BadReply, match=r"cut off at its limit|ended early"):
            decisions_of(Reply(said, ended=ended), NAMES, tools)


@pytest.mark.parametrize(
    "ended", ["length", "abort", "error", "insufficient_system_resource", "content_filter"]
)
def test_arguments_that_never_came_are_none_only_if_the_reply_is_complete(ended: str) -> None:
    [command] = decisions_of(calls(("read_file", ""), ended="stop"), NAMES)
    assert isinstance(command, Command)
    [bad] = decisions_of(calls(("read_file", ""), ended=ended), NAMES)
    assert isinstance(bad, BadReply) and bad.command == Command("read_file", {}, {}, "c0", 0)
    assert ("cut off at its limit" if ended == "length" else f"ended early ({ended})") in str(bad)


@pytest.mark.parametrize(
    ("text", "is_answer"),
    [
        ('Put it into mcp.json:\n{"mcpServers": {"time": {"command": "uvx", "args": []}}}', True),
        ('{"mcpServers": {"time": {"command": "uvx", "args": []}}}', True),
        ('The file says: {"command": "one", "command_args": {}}. That is all.', True),
        ('{"command": "one", "command_args": {}}', False),
        ('```json\n{"command": "one", "command_args": {}}\n```', False),
        ('{"thought": "t", "command": "one", "command_args": {"a', False),
        ('{"command": "read_file", "path": "x"}', False),
        ('I look.\n{"command": "read_file", "command_args": {"path": "x"}}', False),
    ],
)
def test_with_tools_a_text_is_never_a_command(text: str, is_answer: bool) -> None:
    assert is_in_words(Reply(text), NAMES) == is_answer
    with pytest.raises(BadReply, match="calls no command"):
        decisions_of(Reply(text), NAMES, tools=True)


ONE = '{"command": "one", "command_args": {}}'
TWO = '{"command": "two", "command_args": {"text": "a } and a { in \\"it\\""}}'


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"I will {{look}} first: {ONE}", "one"),
        (f"Not {ONE}, but rather {TWO}. Is that {{fine}}?", "two"),
        (f"<think>{{'a': {{</think>{ONE}", "one"),
        (f'{TWO} {{"observation": 7}}', "two"),
        (f'```json\n{{"example": 1}}\n``` and then {ONE}', "one"),
        (f"```\n{ONE}\n``` {{ ```", "one"),
        (f'{{"reply": 1}} {{"reply": {{"command": "inner"}}}} {ONE}', "one"),
    ],
)
def test_chatter_around_the_object_is_passed_over_and_the_last_with_a_command_counts(
    text: str, name: str
) -> None:
    read = read_reply(text)
    assert isinstance(read, Command) and read.name == name


@pytest.mark.parametrize(
    "text",
    [
        f"analysisMaybe {ONE}? No. assistantfinalI cannot.",
        f"analysis- Maybe {ONE}? No.assistantfinalI cannot.",
        f"analysis\nMaybe {ONE}? No.\nassistantfinal\nI cannot.",
        f"analysisMaybe `{ONE}`assistantfinalI cannot.",
    ],
)
def test_a_command_in_reasoning_that_cannot_be_split_off_is_not_carried_out(text: str) -> None:
    with pytest.raises(BadReply, match="calls no command"):
        decisions_of(Reply(without_thoughts(text)[0]), NAMES)


@pytest.mark.timeout(30)  # with time that grows as the square of the length it would be hours
@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 150_000,
        "{" * 900_000,
        '{"' * 450_000,
        '{"a" {' * 150_000,
        '{"k":"' + "x{" * 400_000,
    ],
)
def test_no_text_takes_longer_than_its_length(text: str) -> None:
    with pytest.raises(BadReply):
        read_reply(text)


def test_of_objects_without_a_command_the_fault_is_told() -> None:
    with pytest.raises(BadReply, match="the reply has no key 'command'"):
        read_reply('```\n{"action": "x"}\n```')
