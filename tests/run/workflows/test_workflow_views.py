"""A workflow for people: each step is a round with its name, its duration and its attempts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure import Client, Run, RunStatus, Settings
from tests.support.command_line import CommandLine
from tests.support.html_checks import Markup
from tests.support.page_visitor import visiting
from tests.support.round_driver import driving
from tests.support.threaded_server import serving
from tests.support.workflow_effects import DONE, FAILING, let_time_pass, nothing_done, play_one

__all__ = ["nothing_done"]


@pytest.fixture
def run(client: Client, settings: Settings) -> Run:
    """A run of three steps that two workers have played in turn. Its second step failed once."""
    FAILING["ship book"] = 1
    run = client.submit("workflow_live_order", "go", {"item": "book"})
    with driving(settings) as one, driving(settings) as other:
        for driver in (one, other, other, one):
            assert play_one(driver)
            let_time_pass(driver)
    found = client.get(run.id)
    assert (found.status, found.state.step) == (RunStatus.COMPLETED, 3), found.error
    assert DONE == {"charge book": 1, "ship book": 2, "mail book": 1}
    return found


def test_show_has_a_line_for_each_step_of_a_workflow(
    run: Run, settings: Settings, tmp_path: Path
) -> None:
    told = CommandLine(tmp_path, settings)("show", run.id, "--transcript")
    assert told.code == 0, told
    events = told.out.partition("events:\n")[2]
    rounds = re.findall(
        r"step (\d)  Executor  (.*)\n    (.*?)  took [\d.]+ m?s  attempt (\d)", events
    )
    assert rounds == [
        ("0", "charge charge book: charge book is done", "charge charge book", "1"),
        ("1", "ship ship book: ship book is done · 1 replayed", "ship ship book", "2"),
        ("2", "mail mail book: mail book is done · 2 replayed", "mail mail book", "1"),
    ], told.out
    assert "step 1  Executor  failed, retrying in" in events
    newest = CommandLine(tmp_path, settings)("show", run.id).out.partition("\nrounds:\n")[2]
    assert re.findall(r"^ +(\d)  Executor  (\w+) .*  [\d.]+ m?s$", newest, re.MULTILINE) == [
        ("0", "charge"),
        ("1", "ship"),
        ("2", "mail"),
    ]


def test_the_page_of_a_workflow_has_a_row_for_each_step(run: Run, settings: Settings) -> None:
    with serving(settings) as url, visiting(url) as visitor:
        page = visitor.see(f"/runs/{run.id}")
        second = visitor.see(f"/runs/{run.id}/steps/1")
    assert Markup(page.html).faults == Markup(second.html).faults == []
    for row in (
        r"step 0 Executor charge charge book → charge book is done [\d:]+ [\d.]+ m?s",
        r"step 1 Executor attempt 2 ship ship book → ship book is done · 1 replayed [\d:]+ [\d.]+ m?s",
        r"step 2 Executor mail mail book → mail book is done · 2 replayed [\d:]+ [\d.]+ m?s",
    ):
        assert re.search(row, page.text), (row, page.text)
    assert second.headings.count("Attempt 1") == second.headings.count("Attempt 2") == 1
    assert re.search(r"Took [\d.]+ m?s", second.text)
    # The command that no round before it has chosen.
    assert "Command ship" in second.text and "Command charge" not in second.text
    assert "chose it" not in second.text and "name ship book" in second.text
