"""``check_replay``: whether changed code of a workflow fits the journals of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from perdure import (
    AsyncSteps,
    Client,
    Diverged,
    FatalError,
    InvalidInput,
    RemoteClient,
    RunNotFound,
    Steps,
    workflow,
)
from perdure.testing import check_replay
from perdure.worker.errors import UnknownFlow
from tests.support.flow_registry import own_registry
from tests.support.round_driver import Driver
from tests.support.runs import hash_of
from tests.support.threaded_server import serving

#: The finished steps.
DONE: list[str] = []


def does(name: str, size: int = 1) -> str:
    DONE.append(name)
    return name * size


def first(steps: Steps, item: str) -> str:
    steps.now()
    long = steps.step(does, "a", 70_000)
    steps.ask("Go on?")
    return f"{len(long)} {steps.step(does, item, name='last')}"


def with_more_at_the_end(steps: Steps, item: str) -> str:
    return first(steps, item) + str(steps.step(does, "new", name="new"))


def with_another_step_before(steps: Steps, item: str) -> str:
    steps.step(does, "new", name="new")
    return first(steps, item)


def with_a_patch(steps: Steps, item: str) -> str:
    if steps.patched("new"):
        steps.step(does, "new", name="new")
    return first(steps, item)


def with_less(steps: Steps, item: str) -> str:
    return "nothing"


async def with_asyncio(steps: AsyncSteps, item: str) -> str:
    steps.now()
    long = await steps.step(does, "a", 70_000)
    await steps.ask("Go on?")
    return f"{len(long)} {await steps.step(does, item, name='last')}"


async def with_another_order(steps: AsyncSteps, item: str) -> str:
    await asyncio.gather(steps.step(does, "b", name="other"), steps.ask("Go on?"))
    return ""


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch, "replayed")
    DONE.clear()


def deploy(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]) -> None:
    own_registry(monkeypatch, "replayed")
    workflow("replayed")(function)


def test_code_that_fits_the_journal_is_told_from_code_that_does_not(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(monkeypatch, first)
    run = client.submit("replayed", inputs={"item": "x"})
    driver.play()
    before, done = hash_of(client._store, run.id), list(DONE)
    fitting = (first, with_more_at_the_end, with_asyncio, with_a_patch)
    for function in fitting:
        deploy(monkeypatch, function)
        assert check_replay(client, run.id) == 2, function  # the time, and the first step
    for function, words in (
        (with_another_step_before, "The function now: new"),
        (with_less, "The function now: its end"),
        (with_another_order, "Its journal: does"),
    ):
        deploy(monkeypatch, function)
        with pytest.raises(Diverged, match=words):
            check_replay(client, run.id)
    assert done == DONE and hash_of(client._store, run.id) == before, "nothing was carried out"

    deploy(monkeypatch, first)
    client.resume(run.id, "yes")
    driver.play()
    assert client.get(run.id).answer == "70000 x"
    assert check_replay(client, run.id) == 4
    with serving(client.settings) as url, closing(RemoteClient(url)) as remote:
        assert check_replay(remote, run.id) == 4
    deploy(monkeypatch, with_more_at_the_end)
    check_replay(client, run.id)


def test_what_cannot_be_replayed_is_told(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunNotFound):
        check_replay(client, "nosuch")
    with pytest.raises(InvalidInput, match="'countdown', which is no workflow"):
        check_replay(client, client.submit("countdown", "go", {"rounds": 1}).id)

    def needs_deps(steps: Steps) -> str:
        return str(steps.deps["name"])

    deploy(monkeypatch, needs_deps)
    run = client.submit("replayed")
    assert check_replay(client, run.id, deps={"name": "ann"}) == 0
    with pytest.raises(FatalError, match="raised TypeError"):
        check_replay(client, run.id)
    own_registry(monkeypatch, "replayed")
    with pytest.raises(UnknownFlow, match="cannot be replayed"):
        check_replay(client, run.id)
