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
from tests.support.example_flows import rings  # noqa: F401 -- registers flows
from tests.support.flow_registry import own_registry

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


def with_defaults(name: str, before: str, limit: int) -> None:
    """Register a flow with these defaults: the node that it pauses before, and its limits."""

    @register(name)
    class Version(ControllerExecutorFlow):
        controller = ModelController(model="openai:a")
        interrupt_before = (before,)
        max_rounds = limit
        budgets: ClassVar = {"tokens": limit}


def of_flow(client: Client, run_id: str, **options: str) -> tuple[object, ...]:
    """Submit a run again, and return its pauses and limits."""
    details = client.again(run_id, **options).details  # type: ignore[arg-type]
    return details["interrupt_before"], details["max_rounds"], details["budgets"]


def test_a_run_again_has_the_pauses_and_limits_that_its_flow_has_now(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_registry(monkeypatch)
    with_defaults("again_v1", "Controller", 7)
    runs = {
        "nothing": client.submit("again_v1", "go"),
        "equal": client.submit(
            "again_v1", "go", interrupt_before=["Controller"], max_rounds=7, budgets={"tokens": 7}
        ),
    }
    runs["fork"] = client.fork(runs["nothing"], 0)
    assert [each.details["chosen"] for each in runs.values()] == [
        [], ["interrupt_before", "max_rounds", "budgets.tokens"], [],
    ]  # fmt: skip
    own_registry(monkeypatch, "again_v1")
    with_defaults("again_v2", "Executor", 9)
    now, chosen = (["Executor"], 9, {"tokens": 9}), (["Controller"], 7, {"tokens": 7})
    assert of_flow(client, runs["nothing"].id, flow="again_v2") == now, "no worker knows v1"
    with_defaults("again_v1", "Executor", 9)
    for name, run in runs.items():
        assert of_flow(client, run.id) == (chosen if name == "equal" else now), name


def test_a_limit_that_was_raised_counts_as_chosen(client: Client) -> None:
    run = client.submit("again_paused", "go")
    client.add(run.id, tokens=1)
    assert of_flow(client, run.id) == (["Executor"], 7, {"tokens": 501})


def test_a_run_of_an_earlier_release_keeps_what_differs_from_its_flow(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_registry(monkeypatch)
    with_defaults("again_v1", "Executor", 7)
    run = client.submit("again_v1", "go", interrupt_before=["Controller"], max_rounds=8)
    client._store.redis.hdel(client._store.keys.run(run.id), "chosen")
    assert of_flow(client, run.id) == (["Controller", "Executor"], 8, {"tokens": 7})
    own_registry(monkeypatch, "again_v1")
    assert of_flow(client, run.id, flow="again_paused") == (["Executor"], 7, {"tokens": 500})


def test_a_chosen_pause_at_a_node_that_is_gone_is_named(client: Client) -> None:
    run = client.submit(
        FLOW, "go", interrupt_before=["Controller", "Executor"], interrupt_after=["Controller"]
    )
    with pytest.raises(
        InvalidInput, match=r"before = Controller, .*after = Controller;.*submit trouble"
    ):
        client.again(run.id, flow="trouble")


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
