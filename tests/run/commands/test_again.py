"""A run once more, as it was and with another model: by the client and by the command."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from perdure import Client, ControllerExecutorFlow, File, Settings, register
from perdure.flows.controllers.model import ModelController
from perdure.flows.core.files import artifacts_of
from perdure.worker.errors import InvalidInput
from tests.support.command_line import CommandLine

FLOW = "again_models"


@register(FLOW)
class Choosing(ControllerExecutorFlow):
    """A flow whose submitters choose between two models."""

    controller = ModelController(model="openai:a", allowed_models=["openai:b", "openai:c"])


@register("again_paused")
class Paused(ControllerExecutorFlow):
    """A flow with limits and pauses of its own."""

    controller = ModelController(model="openai:a")
    max_rounds = 7
    budgets: ClassVar = {"tokens": 500}
    interrupt_before = ("Executor",)


#: Fields of a run that a submission once more repeats.
REPEATED = (
    "goal", "inputs", "labels", "budgets", "max_rounds", "interrupt_before", "interrupt_after",
    "retry", "model", "files",
)  # fmt: skip


def test_a_run_again_has_the_limits_pauses_and_files_of_the_run(client: Client) -> None:
    run = client.submit(
        FLOW,
        "go",
        labels={"team": "till"},
        model="openai:b",
        budgets={"tokens": 1_234_567, "money": 1234.5678, "seconds": 100, "cycles": 3},
        max_rounds=2,
        retry={"max_attempts": 1, "not_on": ["ValueError"]},
        interrupt_before=["Controller"],
        interrupt_after=["Executor"],
        files=[File("a.txt", b"x")],
        topic="order:1",
        thread_id="ada",
        deadline=3600,
    )
    store = client._store
    attached = artifacts_of("0-plot.txt", File("0-plot.txt", b"y"))
    store.redis.hset(store.keys.artifacts(run.id), mapping=attached)
    again = client.again(run.id)
    (before, after) = (store.reads.fields(each.id) or {} for each in (run, again))
    for name in REPEATED:
        assert name in before and after.get(name) == before[name], name
    assert [file.name for file in client.files(again.id)] == ["a.txt"], "not what a round attached"
    assert client.file(again.id, "a.txt").content == b"x"
    assert not {"topic", "thread_id", "deadline"} & {*after}


def test_a_run_again_has_no_pause_that_the_run_did_not_have(client: Client) -> None:
    run = client.submit("again_paused", "go", interrupt_before=[])
    assert client.again(run.id).details["interrupt_before"] == []


def test_a_run_again_by_another_flow_has_the_pauses_of_that_flow(client: Client) -> None:
    run = client.submit(FLOW, "go")
    again = client.again(run.id, flow="again_paused")
    assert again.details["interrupt_before"] == ["Executor"]
    assert (again.details["max_rounds"], again.details["budgets"]) == (7, {"tokens": 500})


def test_a_run_is_submitted_once_more_with_another_model(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    run = client.submit(FLOW, "go", model="openai:b")
    assert client.again(run.id).details["model"] == "openai:b"
    assert client.again(run.id, model="openai:c").details["model"] == "openai:c"
    done = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES=__name__)(
        "again", run.id, "--model", "openai:c"
    )
    assert client.get(done.out.strip()).details["model"] == "openai:c"
    with pytest.raises(InvalidInput, match="openai:d"):
        client.again(run.id, model="openai:d")
