"""Flows as commands: a controller hands a goal to another flow, and reads that run's answer."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client, Run, RunStatus, Settings
from tests.support.redis_servers import until
from tests.support.round_driver import Driver

MODULES = ("tests.support.example_flows.agents",)


pytestmark = pytest.mark.settings(flow_modules=MODULES, lease_seconds=1.0, heartbeat_seconds=0.2)


def chief(client: Client, *replies: Any, **options: Any) -> Run:
    return client.submit("chief", "g", {"replies": list(replies)}, **options)


def played(client: Client, driver: Driver, run: Run) -> Run:
    driver.play()
    return client.get(run.id)


def children_of(client: Client, run: Run) -> list[Run]:
    return client.children(run.id, limit=200).runs


def sweep_until_ended(driver: Driver, run: Run) -> None:
    def ended() -> bool:
        driver.sweep_and_play()
        return driver.client.get(run.id).status.ended

    until(ended, "the end of the run")


def test_the_answer_of_the_other_run_is_the_observation(client: Client, driver: Driver) -> None:
    run = chief(client, ["research", {"goal": "why", "depth": 2}])
    assert played(client, driver, run).answer == ["why, 2 deep"]
    (child,) = children_of(client, run)
    assert (child.flow, child.goal, child.inputs["depth"]) == ("scout", "why", 2)


def test_calls_of_one_reply_stay_in_order(client: Client, driver: Driver) -> None:
    reply = [["research", {"goal": goal}] for goal in "abc"]
    done = played(client, driver, chief(client, reply))
    assert done.answer == ["a, 1 deep", "b, 1 deep", "c, 1 deep"]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("fail", "errored at step 0, node Look: there is nothing"),
        ("unfinished", "used up its cycles before it finished"),
    ],
)
def test_a_failure_of_the_other_run_is_an_observation(
    client: Client, driver: Driver, how: str, told: str
) -> None:
    run = chief(client, ["careful", {"goal": "x", "how": how}])
    driver.play()
    client.resume(run.id, "approve")
    done = played(client, driver, run)
    (child,) = children_of(client, run)
    told = told.format(child=child.id)
    error = f"ChildFailed: child run {child.id} (flow scout) {told}"
    assert done.answer == [{"error": error, "run": child.id}]


def test_code_that_decides_gets_the_failure_as_an_error(client: Client, driver: Driver) -> None:
    run = client.submit("coded-chief", "g", {"how": "fail"})
    done = played(client, driver, run)
    (child,) = children_of(client, run)
    assert done.status is RunStatus.ERRORED
    assert f"perdure retry {child.id}" in str(done.error)


def test_a_stopped_child_is_an_observation(client: Client, driver: Driver) -> None:
    run = chief(client, ["research", {"goal": "x", "how": "ask"}])
    driver.play()
    (child,) = children_of(client, run)
    client.request_stop(child.id)
    (told,) = played(client, driver, run).answer
    assert (told["error"].split(" (")[0], told["run"]) == (
        f"ChildFailed: child run {child.id}",
        child.id,
    )


def test_a_command_that_holds_waits_until_its_child_is_mended(
    client: Client, driver: Driver
) -> None:
    run = chief(client, ["patient", {"goal": "x", "how": "ask"}])
    driver.play()
    (child,) = children_of(client, run)
    client.request_stop(child.id)
    assert played(client, driver, run).phase == "parked"
    client.resume(child.id, "yes")
    assert played(client, driver, run).answer == ["x, 1 deep"]


def test_an_unknown_flow_is_an_observation(client: Client, driver: Driver) -> None:
    (told,) = played(client, driver, chief(client, ["lost", {"goal": "x", "any": 1}])).answer
    assert "InvalidChild: " in told["error"]
    assert "no flow is named 'no-such-flow'" in told["error"]


def test_arguments_that_the_flow_does_not_accept_are_a_bad_reply(
    client: Client, driver: Driver
) -> None:
    run = chief(client, ["research", {"goal": "x", "depth": 9}], ["research", {"depth": 1}])
    deep, without = played(client, driver, run).answer
    assert "BadReply: command 'research' does not accept these arguments: " in deep["error"]
    assert "depth: Input should be less than or equal to 3" in deep["error"]
    assert "goal: it is missing. It takes: goal, depth, how, sources" in without["error"]
    assert children_of(client, run) == []


def test_a_flow_that_leads_to_itself_ends_at_the_last_generation(
    client: Client, driver: Driver, settings: Settings
) -> None:
    replies: list[Any] = []
    for _ in range(settings.max_depth + 1):
        replies = [["again", {"goal": "deeper", "replies": replies}]]
    answer = played(client, driver, chief(client, *replies)).answer
    for _ in range(settings.max_depth):
        (answer,) = answer
    assert "9th generation; the limit is 8 (max_depth)" in answer[0]["error"]


def test_an_approval_comes_before_the_child_and_is_kept_while_the_run_waits(
    client: Client, driver: Driver
) -> None:
    run = chief(client, ["careful", {"goal": "x"}])
    driver.play()
    assert children_of(client, run) == []
    client.resume(run.id, {"edit": {"goal": "y"}}, by="ann")
    done = played(client, driver, run)
    assert done.answer == [{"result": "y, 1 deep", "edited": {"by": "ann", "args": {"goal": "y"}}}]
    (child,) = children_of(client, run)
    assert (child.goal, child.labels) == ("y", {"a": "b"})
    assert (
        len([each for each in client.events(run.id, follow=False) if each.type == "interrupted"])
        == 1
    )


def test_a_refusal_starts_no_child(client: Client, driver: Driver) -> None:
    run = chief(client, ["careful", {"goal": "x"}])
    driver.play()
    client.resume(run.id, {"refuse": "too dear"})
    assert played(client, driver, run).answer == [{"refused": "too dear"}]
    assert children_of(client, run) == []


def test_a_budget_counts_each_child_once(client: Client, driver: Driver) -> None:
    reply = [["research", {"goal": goal}] for goal in "abc"]
    run = chief(client, reply, budgets={"commands.research": 2})
    driver.play()
    (question,) = client.inbox().waiting
    assert "commands.research" in str(question)
    assert len(children_of(client, run)) == 2
    client.resume(run.id, add={"commands.research": 1})
    assert played(client, driver, run).answer == ["a, 1 deep", "b, 1 deep", "c, 1 deep"]


def test_a_worker_that_is_lost_behind_the_wait_leaves_no_doubt(
    client: Client, driver: Driver
) -> None:
    run = chief(client, ["research", {"goal": "x"}], ["research", {"goal": "y"}])
    for _ in range(3):  # decides; parks; the child
        driver.engine.rounds.run(*(driver.take() or ("", 0, 0)))
    message = driver.take()
    assert message is not None
    driver.dies_before_its_commit(*message)
    sweep_until_ended(driver, run)
    assert client.get(run.id).answer == ["x, 1 deep", "y, 1 deep"]
    assert len(children_of(client, run)) == 2
