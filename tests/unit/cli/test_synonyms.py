"""Names that other tools have for a command: the error names the right one."""

from __future__ import annotations

import re

import click
import pytest

from perdure.worker.cli.main import COMMANDS, HINTS, SYNONYMS, perdure


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("status", "perdure show RUN"),
        ("cancel", "perdure stop RUN"),
        ("approve", "perdure resume RUN --approve"),
        ("run", "perdure submit FLOW"),
        ("logs", "perdure watch RUN"),
        ("help", "perdure --help"),
        ("LS", "perdure list"),
    ],
)
def test_the_name_of_another_tool_is_told_the_right_command(word: str, command: str) -> None:
    with (
        perdure.make_context("perdure", [word]) as context,
        pytest.raises(click.UsageError) as caught,
    ):
        perdure.invoke(context)
    assert caught.value.message.startswith(f"No such command {word!r}. ")
    assert command in caught.value.message and "Commands:" not in caught.value.message


def test_each_hint_names_commands_that_there_are_and_hides_none() -> None:
    for hint in SYNONYMS:
        named = re.findall(r"perdure ([a-z]+)", hint)
        assert set(named) <= COMMANDS.keys(), hint
    assert not HINTS.keys() & COMMANDS.keys()
    assert len(HINTS) == sum(map(len, SYNONYMS.values())), "a name has one hint"
