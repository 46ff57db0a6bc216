"""Ids may be shortened on a command line, where one run alone begins so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from worker import Client, RunNotFound
from worker.settings import Settings


@pytest.fixture
def holdfast(tmp_path: Path, settings: Settings) -> CommandLine:
    return CommandLine(tmp_path, settings)


def test_the_only_run_that_begins_so_is_meant_and_several_are_an_error(holdfast: CommandLine, client: Client) -> None:
    for run_id in ("abc-one", "abc-two", "abc", "xyz-one"):
        client.submit("countdown", "x", run_id=run_id)
    assert holdfast("show", "xyz", "--json").json["id"] == "xyz-one"
    assert holdfast("show", "abc", "--json").json["id"] == "abc", "a whole id is meant as such"
    several = holdfast("show", "abc-")
    assert several.code == 2 and "abc-one" in several.err and "abc-two" in several.err
    assert holdfast("show", "nope").code == 3
    assert holdfast("stop", "abc-o", "--now").code == 0 and client.get("abc-one").status.value == "stopped"
    assert holdfast("why", "abc-o").code == 0 and holdfast("resume", "abc-o").code == 0
    holdfast("stop", "abc-o", "--now")
    assert holdfast("delete", "abc-o").code == 0
    with pytest.raises(RunNotFound):
        client.get("abc-one")
