"""docs/guides/people.md: its commands can be given, and the code accepts its examples."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import yaml

from perdure.flows.commands.command import spec_of
from perdure.flows.rings.config import read_config
from perdure.worker.cli.main import perdure
from tests.support.pending_interrupts import ASKED

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "people.md").read_text("utf-8")


def test_every_command_can_be_given_as_it_stands_there() -> None:
    given = [
        shlex.split(line) for line in re.findall(r"^ *(?:\$ )?(perdure .*)$", TEXT, re.MULTILINE)
    ]
    assert len(given) >= 7
    for _, name, *arguments in given:
        command = perdure.get_command(click.Context(perdure), name)
        assert command is not None, name
        command.make_context(name, arguments)


def test_every_option_that_answers_is_one() -> None:
    command = perdure.get_command(click.Context(perdure), "resume")
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    named = set(re.findall(r"`(?:perdure resume RUN )?(--[a-z]+)", TEXT))
    assert (
        {"--approve", "--refuse", "--edit", "--answer", "--add", "--interrupt"}
        <= named
        <= known | {"--transcript", "--json"}
    )


def test_each_kind_of_question_has_a_row() -> None:
    assert re.findall(r"^\| ([a-z ]+) \|", TEXT, re.MULTILINE)[1:] == [
        kind.replace("_", " ") for kind in ASKED
    ]


def test_the_examples_say_when_a_person_is_asked() -> None:
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0], names)
    approval = spec_of(names["send_mail"]).approval  # type: ignore[arg-type]
    assert approval is not None
    assert [approval.is_needed({"to": to}) for to in ("me@example.com", "you@elsewhere.org")] == [
        False,
        True,
    ]
    config = read_config(yaml.safe_load(re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)[0]))
    said = {
        name: each.said["approval"] for name, each in config.subflows_config.Executor.chosen.items()
    }
    assert said["write_file"].is_needed({}) and said["send_mail"].deadline == 3600
    assert [
        said["send_mail"].is_needed({"to": to}) for to in ("me@example.com", "you@elsewhere.org")
    ] == [False, True]
