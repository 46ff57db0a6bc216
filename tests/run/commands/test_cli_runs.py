"""The command line on runs: submitted, watched, answered, stopped, retried and deleted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.flow_registry import own_registry
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, playing

FLOWS = """
from perdure import ControllerExecutorFlow, FatalError, register

@register("broken")
class Broken(ControllerExecutorFlow):
    def decide(self, context):
        raise FatalError("the till is on fire")
"""


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """With a module of flows in the working directory, as on a developer's machine."""
    own_registry(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_flows", raising=False)
    (tmp_path / "my_flows.py").write_text(FLOWS)
    return settings.model_copy(update={"flow_modules": ("my_flows",)})


@pytest.fixture
def perdure(tmp_path: Path, settings: Settings) -> CommandLine:
    return CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES="my_flows")


def test_submit_and_watch_tells_the_answer_and_by_its_exit_code_how_the_run_ended(
    perdure: CommandLine, client: Client, settings: Settings, driver: Driver
) -> None:
    with playing(settings):
        done = perdure(
            "submit", "countdown", "x", "--input", "rounds=2", "--label", "who=me", "--watch"
        )
    assert done.code == 0 and "answer: counted down from 2" in done.out, done
    assert [line.split("  ")[1] for line in done.out.splitlines() if "  step " in line] == [
        "step 0", "step 0", "step 1", "step 2", "step 3", "step 4", "step 5",
    ]  # fmt: skip
    assert "\x1b" not in done.out

    assert perdure("submit", "broken", "x", "--id", "bad").code == 0
    driver.play()
    errored = perdure("watch", "bad")
    assert (
        errored.code == 4
        and "the till is on fire" in errored.out
        and "perdure retry bad" in errored.out
    )

    assert perdure("submit", "question", "who?", "--id", "ask").code == 0
    driver.play()
    asked = perdure("watch", "ask")
    assert asked.code == 6 and "perdure resume ask --answer" in asked.out
    assert perdure("resume", "ask", "--answer", '"me"').code == 0
    driver.play()
    answered = perdure("watch", "ask", "--json")
    documents = [json.loads(line) for line in answered.out.splitlines()]
    assert (
        answered.code == 0
        and documents[-1]["type"] == "end"
        and documents[-1]["run"]["answer"] == "me"
    )

    assert perdure("retry", "bad").code == 0
    driver.play()
    assert client.get("bad").status is RunStatus.ERRORED
    assert "retried" in [event.type for event in client.events("bad")]

    client.submit("countdown", "x", {"rounds": 1, "seconds": 600}, run_id="long")
    with playing(settings):
        until(
            lambda: (run := client.get("long")).phase == "leased" and run.state.step == 1,
            "the round of the Executor",
        )
        stopped = perdure("stop", "long", "--now", "--reason", "enough", "--by", "me")
    assert stopped.code == 0 and "long is stopped" in stopped.out and "1/Executor/1" in stopped.out
    assert "already stopped" in perdure("stop", "long").out
    watched = perdure("watch", "long")
    assert watched.code == 5 and "by me, because enough" in watched.out
    assert perdure("delete", "long").code == 0 and perdure("show", "long").code == 3


def test_results_are_documents_or_plain_lines_without_a_terminal(
    perdure: CommandLine, client: Client
) -> None:
    goal = "a goal\nof two lines, \x1b[31mred\x1b[0m and \ttabbed"
    client.submit("countdown", goal, {"rounds": 2}, run_id="one", labels={"who": "me"})
    client.submit("question", "two", run_id="two")
    listed = perdure("list", "--flow", "countdown")
    assert listed.out.count("\n") == 1 and "\x1b" not in listed.out
    assert listed.out.split("\t")[:4] == ["one", "queued", "countdown", "0"]
    assert {run["id"] for run in perdure("list", "--json", "--status", "queued").json} == {
        "one",
        "two",
    }
    labelled = ("list", "--label", "who=me")
    assert [run["id"] for run in perdure(*labelled, "--json").json] == ["one"]
    assert perdure(*labelled, "--label", "x=y").out == ""
    assert "expects KEY=VALUE" in perdure("list", "--label", "who").err
    assert perdure("show", "one", "--json").json["labels"] == {"who": "me"}
    assert set(perdure("show", "one", "--transcript", "--json").json) == {
        "run",
        "history",
        "events",
    }
    assert "submitted" in perdure("show", "one", "--transcript").out
    assert perdure("workers", "--json").json == [] and perdure("workers").out == ""
    assert {"bisect", "countdown", "question", "broken"} <= set(perdure("flows", "--json").json)
    assert perdure("flows", "bisect", "--json").json["runs_shell"] is True
    assert perdure("flows", "bisct").code == 3
    submitted = perdure("submit", "question", "three", "--json")
    assert submitted.json["status"] == "queued" and "no worker" in submitted.err
    stopped = perdure("stop", "--flow", "question", "--json")
    assert [receipt["stopped"] for receipt in stopped.json] == [True, True]
    assert perdure("stop", "--status", "queued").out.splitlines() == ["one is stopped at step 0"]
    assert perdure("resume", "one", "--json").json["status"] == "queued"


def test_a_relative_path_is_taken_from_where_it_is_submitted(perdure: CommandLine) -> None:
    inputs = [
        part
        for text in ("repo=till", "good=v1", "bad=main", "test=true")
        for part in ("--input", text)
    ]
    submitted = perdure("submit", "bisect", "x", *inputs, "--json")
    assert submitted.json["inputs"]["repo"] == str(perdure.directory / "till")
    assert "perdure worker --enable bisect" in submitted.err
