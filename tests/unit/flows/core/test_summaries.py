"""A round's summary for watchers: short, and without empty fields."""

from __future__ import annotations

from typing import Any

from perdure import Command, ControllerExecutorFlow, End, Finish, ScriptedController
from perdure.flows.core.outcomes import Advance
from perdure.flows.core.summaries import safe_text, shown, summary_of
from perdure.flows.rings.memory import KEPT_CHARACTERS, memory_write
from perdure.flows.rounds.context import RoundContext


def add(a: int, b: int = 0) -> int:
    return a + b


def played(reply: Any, node: str = "Controller", **committed: Any) -> Advance | End:
    flow = ControllerExecutorFlow(
        controller=ScriptedController([reply], reads_errors=True), commands=[add]
    )
    outcome = flow.play(node, RoundContext("g", committed=committed))
    assert isinstance(outcome, Advance | End)
    return outcome


def test_a_text_is_made_sound() -> None:
    assert safe_text("a\ud800", 4) == "a?"


def test_a_text_of_just_the_limit_is_whole() -> None:
    assert (safe_text("abcd", 4), safe_text("abcde", 4)) == ("abcd", "abc…")


def test_values_are_shown_as_they_are_stored() -> None:
    assert (shown("a b"), shown({"b": 1, "a": [None]})) == ("a b", '{"a":[null],"b":1}')


def test_a_command_is_told_with_its_arguments_and_what_was_said_and_nothing_empty() -> None:
    command = Command(
        "add", {"b": 1, "a": 2}, {"thought": "sum", "plan": "", "criticism": None, "steps": []}
    )
    assert summary_of(command, answer=[3]) == {
        "command": "add",
        "args": '{"a":2,"b":1}',
        "thought": "sum",
        "answer": "[3]",
    }


def test_each_round_tells_what_it_came_to() -> None:
    assert played(Command("add", {"a": 1}, {"thought": "sum"})).summary == {
        "command": "add",
        "args": '{"a":1}',
        "thought": "sum",
    }
    carried_out = played(
        None, "Executor", command="add", command_args={"a": 1, "b": 2}, _said={"thought": "sum"}
    )
    assert carried_out.summary == {
        "command": "add",
        "args": '{"a":1,"b":2}',
        "observation": "3",
        "digest": "4e07408562bedb8b",
    }
    assert played(Finish("done")).summary == {"command": "finish", "args": "{}", "answer": "done"}
    said = played(Command("finish", {"answer": "done"}, {"thought": "enough"}))
    assert said.summary == {
        "command": "finish",
        "args": "{}",
        "thought": "enough",
        "answer": "done",
    }


def test_a_bad_reply_tells_its_fault() -> None:
    assert played(7).summary["error"].startswith("the reply is a int; expected a JSON object")


def test_the_memory_keeps_values_of_just_its_limit_as_they_are() -> None:
    fits, too_long = ["a" * (KEPT_CHARACTERS - 4)], ["a" * (KEPT_CHARACTERS - 3)]
    for value, kept in ((fits, fits), (too_long, '["' + "a" * (KEPT_CHARACTERS - 3) + "…")):
        [entry] = memory_write({"observation": value}, RoundContext("g"))["memory"]
        assert entry["observation"] == kept
