"""The controller's error for a reply that is none: the reply, and the expected form."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import BadReply, Command
from perdure.flows.commands.replies import read_reply

FORMAT = 'expected a JSON object like {"thought": "...", "command": "name", "command_args": {...}}'


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (7, f"the reply is a int; {FORMAT}"),
        ("[1]", f"the reply is a list; {FORMAT}"),
        ({"command": "x"}, f"the reply has no key 'command_args', only ['command']; {FORMAT}"),
        ({"b": 1, "a": 1}, f"the reply has no key 'command', only ['a', 'b']; {FORMAT}"),
        ({"command": 7, "command_args": {}}, "the command's name is 7; expected text"),
        (
            Command("x", [1]),
            "the arguments of command 'x' are [1]; expected an object of names and values",
        ),  # type: ignore[arg-type]
        (
            Command("x", Unspeakable()),
            "the arguments of command 'x' are a Unspeakable; expected an object of names and values",
        ),  # type: ignore[arg-type]
    ],
)
def test_a_bad_reply_is_told_with_what_was_expected(reply: Any, told: str) -> None:
    with pytest.raises(BadReply) as bad:
        read_reply(reply)
    assert str(bad.value) == told


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (Command("\ud800", {}), "the command's name holds"),
        (Command("x", {"a": float("nan")}), "the arguments of command 'x' at a is nan"),
        (
            Command("x", {}, {"thought": float("nan")}),
            "the other fields of the reply with command 'x' at thought is nan",
        ),
    ],
)
def test_what_cannot_be_stored_is_told_by_its_place(reply: Any, what: str) -> None:
    with pytest.raises(BadReply) as bad:
        read_reply(reply)
    assert str(bad.value).startswith(what)


def test_text_that_is_not_json_is_told_with_its_fault() -> None:
    with pytest.raises(BadReply) as bad:
        read_reply("do it!")
    assert (
        str(bad.value)
        == f"the reply is not JSON (Expecting value: line 1 column 1 (char 0)): 'do it!'; {FORMAT}"
    )


def test_a_fence_is_looked_into_and_what_else_is_said_is_kept() -> None:
    read = read_reply('So:\n```json\n{"thought": "t", "command": "x", "command_args": null}\n```')
    assert read == Command("x", {}, {"thought": "t"})
