"""Ids may be shortened on a command line, where one run alone begins so."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Client, RunNotFound
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine


@pytest.fixture
def perdure(tmp_path: Path, settings: Settings) -> CommandLine:
    return CommandLine(tmp_path, settings)


def test_the_only_run_that_begins_so_is_meant_and_several_are_an_error(
    perdure: CommandLine, client: Client
) -> None:
    for run_id in ("abc-one", "abc-two", "abc", "xyz-one"):
        client.submit("countdown", "x", run_id=run_id)
    assert perdure("show", "xyz", "--json").json["id"] == "xyz-one"
    assert perdure("show", "abc", "--json").json["id"] == "abc", "a whole id is meant as such"
    several = perdure("show", "abc-")
    assert several.code == 2 and "abc-one" in several.err and "abc-two" in several.err
    assert perdure("show", "nope").code == 3
    assert (
        perdure("stop", "abc-o", "--now").code == 0
        and client.get("abc-one").status.value == "stopped"
    )
    assert perdure("why", "abc-o").code == 0 and perdure("resume", "abc-o").code == 0
    perdure("stop", "abc-o", "--now")
    assert perdure("delete", "abc-o").code == 0
    with pytest.raises(RunNotFound):
        client.get("abc-one")
