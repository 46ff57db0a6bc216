"""A workflow that was refused a topic keeps its way when the topic is free."""

from __future__ import annotations

import sys

import pytest

from perdure import AsyncSteps, Client, RunStatus, Steps, TopicTaken, workflow
from tests.support.round_driver import Driver
from tests.support.workflow_effects import effect, nothing_done, other, play, play_one

__all__ = ["nothing_done", "other"]


@workflow("workflow_of_a_refused_topic")
def plain(steps: Steps, fails: bool, exits: bool = False) -> list[str]:
    done = [steps.step(effect, "a", idempotent=True)]
    try:
        steps.listen("order:1")
    except TopicTaken:
        if exits:
            sys.exit("order:1 is busy")
        if fails:
            raise
        return [*done, *(steps.step(effect, name, idempotent=True) for name in ("b", "c"))]
    return [*done, steps.step(effect, "taken", idempotent=True)]


@workflow("live_workflow_of_a_refused_topic")
async def live(steps: AsyncSteps, fails: bool, exits: bool = False) -> list[str]:
    done = [await steps.step(effect, "a", idempotent=True)]
    try:
        steps.listen("order:1")
    except TopicTaken:
        if exits:
            sys.exit("order:1 is busy")
        if fails:
            raise
        return [*done, *[await steps.step(effect, name, idempotent=True) for name in ("b", "c")]]
    return [*done, await steps.step(effect, "taken", idempotent=True)]


@pytest.fixture
def holder(client: Client) -> str:
    """Submit a run that holds the topic; its id."""
    return client.submit("workflow_order", "go", {"item": "book"}, topic="order:1").id


@pytest.mark.parametrize(
    "flow", ["workflow_of_a_refused_topic", "live_workflow_of_a_refused_topic"]
)
def test_a_run_that_was_refused_a_topic_goes_on_without_it(
    client: Client, driver: Driver, other: Driver, holder: str, flow: str
) -> None:
    driver.take()  # The holder's round is not played, so it holds the topic.
    run = client.submit(flow, "go", {"fails": False})
    assert play_one(driver) and play_one(driver)
    client.request_stop(holder)
    while not client.get(run.id).status.ended:
        assert play_one(other) or play_one(driver)
    assert client.get(run.id).answer == ["a is done", "b is done", "c is done"]


@pytest.mark.parametrize(
    "flow", ["workflow_of_a_refused_topic", "live_workflow_of_a_refused_topic"]
)
@pytest.mark.parametrize("exits", [False, True])
def test_a_retry_of_a_run_that_was_refused_a_topic_asks_for_it_again(
    client: Client, driver: Driver, holder: str, flow: str, exits: bool
) -> None:
    driver.take()
    run = client.submit(flow, "go", {"fails": True, "exits": exits})
    refused = play(driver, run)
    assert refused.status is RunStatus.ERRORED and "order:1" in str(refused.error)
    client.request_stop(holder)
    client.retry(run.id)
    assert play(driver, run).answer == ["a is done", "taken is done"]
