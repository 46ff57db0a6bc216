"""The command line on many runs: tried again, removed and paused together."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.flow_registry import own_registry
from tests.support.round_driver import Driver

FLOWS = """
from perdure import Command, ControllerExecutorFlow, FatalError, Finish, command, register

class Broken(ControllerExecutorFlow):
    def decide(self, context):
        raise FatalError("the till is on fire")

@register("noting")
class Noting(ControllerExecutorFlow):
    def decide(self, context):
        seen = len(context.history)
        return Finish("done") if seen == 2 else Command("look", {"number": seen + 1})

    @command
    def look(self, context, number: int) -> str:
        context.remember("seen", [*context.values.get("seen", []), number])
        return "looked"

register("broken")(Broken)
register("cracked")(type("Cracked", (Broken,), {}))
"""


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """With a module of flows in the working directory of the commands."""
    own_registry(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_flows", raising=False)
    (tmp_path / "my_flows.py").write_text(FLOWS)
    return settings.model_copy(update={"flow_modules": ("my_flows",)})


@pytest.fixture
def perdure(tmp_path: Path, settings: Settings) -> CommandLine:
    return CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES="my_flows")


def retried(client: Client, run_id: str) -> bool:
    return "retried" in [event.type for event in client.events(run_id, follow=False)]


def test_errored_runs_are_retried_by_flow_or_all(
    perdure: CommandLine, client: Client, driver: Driver
) -> None:
    for flow, run_id in (("broken", "b1"), ("broken", "b2"), ("cracked", "c1")):
        assert perdure("submit", flow, "x", "--id", run_id).code == 0
    driver.play()
    done = perdure("retry", "--flow", "broken", "--json")
    assert done.code == 0 and sorted(each["run_id"] for each in done.json) == ["b1", "b2"]
    assert all(each["why_not"] is None for each in done.json)
    assert [retried(client, run_id) for run_id in ("b1", "b2", "c1")] == [True, True, False]
    driver.play()
    assert [client.get(run_id).status for run_id in ("b1", "b2")] == [RunStatus.ERRORED] * 2
    said = perdure("retry", "--all").out.splitlines()
    assert sorted(said) == [f"{run_id} is retried" for run_id in ("b1", "b2", "c1")]
    assert perdure("retry", "--flow", "countdown").out == "no matching runs\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("retry",),
        ("retry", "r", "--all"),
        ("retry", "r", "--flow", "f"),
        ("delete",),
        ("delete", "r", "--status", "stopped"),
        ("delete", "--flow", "f"),
        ("delete", "r", "--older-than", "7d"),
        ("delete", "--status", "running"),
        ("delete", "--status", "stopped", "--older-than", "soon"),
    ],
)
def test_one_run_or_many_is_said_without_doubt(
    perdure: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert perdure(*arguments).code == 2


def test_ended_runs_are_deleted_by_status_flow_and_age(
    perdure: CommandLine, client: Client
) -> None:
    for run_id in ("a", "b"):
        client.submit("countdown", "x", run_id=run_id)
    client.submit("question", "x", run_id="c")
    client.submit("question", "x", run_id="live")
    for run_id in ("a", "b", "c"):
        client.request_stop(run_id)
    assert perdure("delete", "--status", "stopped", "--older-than", "7d", "--json").json == []
    done = perdure("delete", "--status", "stopped", "--flow", "countdown", "--json")
    assert sorted(each["run_id"] for each in done.json) == ["a", "b"]
    assert perdure("delete", "--status", "stopped", "--older-than", "0s").out == "c is deleted\n"
    assert [run.id for run in client.runs()] == ["live"]


def test_runs_of_a_paused_flow_wait_and_go_on_when_it_is_unpaused(
    perdure: CommandLine, client: Client, driver: Driver
) -> None:
    paused = perdure("flows", "pause", "countdown", "--reason", "the model is down", "--by", "ann")
    assert paused.code == 0 and "perdure flows unpause countdown" in paused.out
    assert "already" in perdure("flows", "pause", "countdown", "--by", "bob").out
    assert (
        client.paused_flows()["countdown"]["by"],
        client.paused_flows()["countdown"]["reason"],
    ) == ("ann", "the model is down")
    assert perdure("flows", "countdown", "--json").json["paused"] is True
    assert perdure("flows", "pause", "cuntdown").code == 3
    runs = [f"r{number}" for number in range(3)]
    for run_id in runs:
        client.submit("countdown", "x", {"rounds": 1}, run_id=run_id)
    client.submit("question", "x", run_id="other")
    driver.play()
    assert {client.get(run_id).phase for run_id in runs} == {"waiting"}, "they are held"
    assert client.get("other").status is RunStatus.INTERRUPTED
    assert "perdure flows unpause countdown" in perdure("show", "r0").out
    unpaused = perdure("flows", "unpause", "countdown", "--json")
    assert unpaused.json == {"flow": "countdown", "paused": False, "offered": 3}
    assert {driver.play_to_rest(run_id).status for run_id in runs} == {RunStatus.COMPLETED}
    assert client.get("r0").details["attempt"] == 0
    assert {
        event.attempt for event in client.events("r0", follow=False) if event.type == "committed"
    } == {1}
    again = perdure("flows", "unpause", "countdown")
    assert again.code == 8 and "countdown is not paused" in again.err and again.out == ""
    unknown = perdure("flows", "unpause", "countdwn")
    assert unknown.code == 3 and "'countdwn'" in unknown.err


def test_a_run_is_exported_whole(
    perdure: CommandLine, client: Client, driver: Driver, tmp_path: Path
) -> None:
    client.submit(
        "noting", "a goal", {"name": "Zoë"}, run_id="r", interrupt_before=["Executor"], max_rounds=7, idempotency_key="key",
        labels={"who": "me"}, thread_id="t",
    )  # fmt: skip
    while driver.play_to_rest("r").status is RunStatus.INTERRUPTED:
        client.resume("r")
    assert client.get("r").status is RunStatus.COMPLETED, client.get("r").error
    file = tmp_path / "r.json"
    file.write_text("what stood there before")
    assert perdure("show", "r", "--output", str(file)).code == 0
    found = json.loads(file.read_text())
    assert found == json.loads(json.dumps(client.transcript("r")))
    run = found["run"]
    assert (run["goal"], run["inputs"], run["labels"], run["answer"]) == (
        "a goal",
        {"name": "Zoë"},
        {"who": "me"},
        "done",
    )
    assert run["options"] == {
        "interrupt_before": ["Executor"],
        "interrupt_after": [],
        "max_rounds": 7,
        "idempotency_key": "key",
    }
    assert run["values"]["seen"] == [1, 2] and run["state"]["thread_id"] == "t"
    assert [turn["command"]["args"] for turn in found["history"]] == [{"number": 1}, {"number": 2}]
    assert [event["step"] for event in found["events"] if event["type"] == "committed"] == list(
        range(5)
    )
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
    assert perdure("show", "r", "--output", str(tmp_path / "none" / "r.json")).code == 2


def test_a_client_stops_retries_and_deletes_many(client: Client) -> None:
    for run_id in ("a", "b"):
        client.submit("countdown", "x", run_id=run_id)
    client.submit("question", "x", run_id="c")
    assert {receipt.run_id for receipt in client.request_stop_many(flow="countdown")} == {"a", "b"}
    assert client.get("c").status is RunStatus.QUEUED
    assert client.retry_many() == []
    assert {done.run_id for done in client.delete_many("stopped")} == {"a", "b"}
    assert [run.id for run in client.runs()] == ["c"]
