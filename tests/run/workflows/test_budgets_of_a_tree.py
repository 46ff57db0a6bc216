"""Budgets of a tree: spending of runs below a run counts, one question is asked, and more lets all
go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from perdure import (
    Child,
    CircularFlow,
    Client,
    Command,
    Controller,
    ControllerExecutorFlow,
    Finish,
    InvalidInput,
    InvalidTransition,
    Node,
    RoundContext,
    Run,
    RunStatus,
    Settings,
    flow_command,
    register,
)
from perdure.flows.core.errors import ProcessEnd
from perdure.worker.ids import process_name
from tests.support.budget_trees import held_up, millionths, tree_of
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving

PRICE = {"tokens": 100, "money": 0.1234567}
#: The requests that were sent; of these numbers the process is killed before the reply.
SENT: list[str] = []
DEADLY: set[int] = set()
#: Is called with the id of the run in its first round.
SAID: list[Callable[[str], object]] = []


class TwoBuyers(Controller):
    """Sends two buyers at once, then reports their findings."""

    reads_errors = True

    def decide(self, context: RoundContext) -> Any:
        if not context.history:
            return [Command("buy", {"goal": goal}) for goal in "ab"]
        return Finish([turn.observation for turn in context.history])


@register("sender_of_two_buyers")
class Sender(ControllerExecutorFlow):
    controller, parallel_calls, needs_goal = TwoBuyers(), 2, False
    commands = (flow_command("buy", flow="buyer_of_much"),)


@register("buyer_of_much")
class Buyer(CircularFlow):
    topology = (Node("Buy", "buy"),)

    def buy(self, state: Mapping[str, Any], context: RoundContext) -> dict[str, Any]:
        context.spend(tokens=90)
        return {"EARLY_EXIT": True, "answer": "bought", "status": "finished"}


class Killed(ProcessEnd):
    """The process dies."""


@register("shoppers_of_one_purse")
class Shoppers(CircularFlow):
    """Hands out as many children as its inputs say; they may hand out more."""

    topology = (Node("Fan", "fan"),)

    def fan(self, state: Mapping[str, Any], context: RoundContext) -> dict[str, Any]:
        inputs = context.inputs
        flow = "shoppers_of_one_purse" if inputs.get("deep") else "shopper_of_the_purse"
        given = {**inputs, "deep": int(inputs.get("deep", 0)) - 1} if inputs.get("deep") else inputs
        children = [Child(flow, f"{place}", given) for place in range(int(inputs["count"]))]
        ended = context.gather(children, wait="settled")
        return {"EARLY_EXIT": True, "answer": len(ended.answers), "status": "finished"}


@register("shopper_of_the_purse")
class Shopper(CircularFlow):
    """Sends a request in each of its rounds."""

    topology = (Node("Buy", "buy"),)

    def buy(self, state: Mapping[str, Any], context: RoundContext) -> dict[str, Any]:
        SENT.append(context.run_id)
        if len(SENT) in DEADLY:
            raise Killed
        context.spend(**PRICE)
        done = int(state.get("done", 0)) + 1
        if done == int(context.inputs["rounds"]):
            return {"EARLY_EXIT": True, "answer": done, "status": "finished"}
        return {"done": done}

    def estimate(self, node: str, context: RoundContext) -> Mapping[str, float]:
        return PRICE


class Interrupted(Controller):
    """Finishes at once. A message arrives during its first round."""

    def decide(self, context: RoundContext) -> Any:
        context.spend(tokens=10)
        while SAID:
            SAID.pop()(context.run_id)
        return Finish("done")


@register("listener_below_the_purse")
class Listener(ControllerExecutorFlow):
    controller, commands = Interrupted(), ()


@register("owner_of_the_purse")
class Owner(CircularFlow):
    topology = (Node("Ask", "ask"),)

    def ask(self, state: Mapping[str, Any], context: RoundContext) -> dict[str, Any]:
        [answer] = context.gather([Child("listener_below_the_purse", "g")])
        return {"EARLY_EXIT": True, "answer": answer, "status": "finished"}


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()
    DEADLY.clear()


def play(driver: Driver) -> None:
    """Play all rounds.

    A process that dies in one is found dead at once, and its round goes on elsewhere.
    """
    store = driver.engine.store
    while (message := driver.take()) is not None:
        try:
            driver.engine.rounds.run(*message)
        except Killed:
            run_id, epoch, step = message
            store.rounds.release_dead_lease(run_id, epoch=epoch, step=step, process=process_name())
            driver.sweeper.sweep()


def assert_the_sum_is_exact(client: Client, run: Run) -> int:
    """Check that the spending of the runs below each run is its recorded sum, to the millionth;
    return the tokens of all.
    """
    for each in (run, *tree_of(client, run)):
        for name in PRICE:
            below = sum(
                millionths(one.details.get("spent", {}), name) for one in tree_of(client, each)
            )
            assert millionths(each.details.get("spent_below", {}), name) == below, (each.id, name)
    return millionths(run.details.get("spent_below", {}), "tokens") // 1_000_000


def submit(client: Client, count: int, rounds: int, deep: int = 0, **budgets: float) -> Run:
    inputs = {"count": count, "rounds": rounds, "deep": deep}
    return client.submit("shoppers_of_one_purse", "g", inputs, budgets=budgets)


def test_a_tree_spends_its_budget_exactly_though_workers_are_killed(
    client: Client, driver: Driver
) -> None:
    DEADLY.update(range(2, 40, 4))
    run = submit(client, 6, 3, tokens=1_000)
    play(driver)
    run = client.get(run.id)
    assert assert_the_sum_is_exact(client, run) >= 1_000
    paid, lost = 100 * len(SENT), len([number for number in DEADLY if number <= len(SENT)])
    assert lost >= 3 and paid <= 1_000 + 100 * (6 + lost), (
        "one request for each run in flight, and each lost one"
    )
    asking, waiting = held_up(client, run)
    [question] = client.inbox().waiting
    assert [each.id for each in asking] == [question.run_id] and len(waiting) >= 1
    assert question.data is not None and question.data["of"] == run.id

    run = client.add(run.id, tokens=5_000)
    assert run.details["budgets"] == {"tokens": 6_000}

    def all_done() -> bool:
        driver.sweeper.sweep()
        play(driver)
        return client.get(run.id).status.ended

    until(all_done, "the end of the tree")
    done = client.get(run.id)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, 6)
    assert assert_the_sum_is_exact(client, done) == 100 * len(SENT)


def test_a_deep_tree_is_held_up_by_its_root_and_goes_on(client: Client, driver: Driver) -> None:
    run = submit(client, 2, 2, deep=2, money=0.4)
    play(driver)
    asking, waiting = held_up(client, run := client.get(run.id))
    assert (len(asking), len(waiting)) == (1, 7) and asking[0].details["depth"] == 3
    assert run.details["spent_below"]["runs"] == 14
    assert client.why(waiting[0].id).code.value == "waiting-for-a-budget"
    # The answer to the question raises the limit of the run that has the budget.
    with pytest.raises(InvalidInput, match="add more than"):
        client.resume(asking[0].id, add={"money": 0.01})
    client.resume(asking[0].id, add={"money": 5})
    assert client.get(run.id).details["budgets"] == {"money": 5.4}
    assert client.inbox().waiting == []

    def all_done() -> bool:
        driver.sweep_and_play()
        return client.get(run.id).status.ended

    until(all_done, "the end of the tree")
    assert assert_the_sum_is_exact(client, client.get(run.id)) == 1_600


def test_another_budget_than_the_one_asked_about_is_refused_with_both_named(
    client: Client, driver: Driver
) -> None:
    run = submit(client, 1, 5, money=0.2, tokens=900)
    play(driver)
    [asking], _ = held_up(client, client.get(run.id))
    with pytest.raises(InvalidInput) as refused:
        client.resume(asking.id, add={"tokens": 50})
    told = str(refused.value)
    assert f"asks for more money of run {run.id}" in told and "no budget 'tokens'" in told
    assert f"perdure resume {asking.id} --add money=" in told
    assert f"perdure add {run.id} tokens=50" in told
    assert client.get(run.id).details["budgets"] == {"money": 0.2, "tokens": 900}
    assert client.get(asking.id).status is RunStatus.INTERRUPTED


def test_the_one_that_asks_may_be_stopped_and_another_asks(client: Client, driver: Driver) -> None:
    run = submit(client, 3, 2, tokens=100)
    play(driver)
    asking, waiting = held_up(client, client.get(run.id))
    assert (len(asking), len(waiting)) == (1, 2)
    client.request_stop(asking[0].id)
    store = driver.engine.store
    for each in waiting:  # its time to look again
        store.redis.hset(store.keys.run(each.id), "waiting_until", 1)
        store.redis.zadd(store.keys.due, {each.id: 1})
    driver.sweep_and_play()
    asking, waiting = held_up(client, client.get(run.id))
    assert (len(asking), len(waiting)) == (1, 1)


def test_calls_whose_child_runs_have_spent_the_budget_end_and_the_controller_asks(
    client: Client, driver: Driver
) -> None:
    run = client.submit("sender_of_two_buyers", budgets={"tokens": 100})
    driver.play()
    [question] = client.inbox()
    assert (question.run_id, question.kind) == (run.id, "budget")
    client.resume(run.id, add={"tokens": 100})
    driver.play()
    assert client.get(run.id).answer == ["bought", "bought"]
    assert client.get(run.id).details["spent_below"]["tokens"] == 180


def test_a_round_whose_finish_waits_for_an_unread_message_is_charged_above(
    client: Client, driver: Driver
) -> None:
    SAID.append(lambda run_id: client.say(run_id, "one more thing"))
    run = client.submit("owner_of_the_purse", "g", budgets={"tokens": 1_000})
    play(driver)
    [child] = client.children(run.id).runs
    assert child.details["spent"]["tokens"] == 20, "it heard the message in a second round"
    assert client.get(run.id).details["spent_below"]["tokens"] == 20


def test_a_budget_of_runs_refuses_what_would_exceed_it(client: Client, driver: Driver) -> None:
    run = submit(client, 2, 1, deep=1, runs=5)
    play(driver)
    done = client.get(run.id)
    first, second = client.children(run.id).runs
    assert (first.status, second.status) == (RunStatus.COMPLETED, RunStatus.ERRORED)
    assert (
        f"the node wants 2 children; run {run.id} has 4 runs below it already and may have 5 "
        f"(its budget runs). To go on: perdure add {run.id} runs=N" in str(second.error)
    )
    assert done.details["spent_below"]["runs"] == 4 and done.answer == 1
    assert "spent_below" not in second.details


def test_a_tree_has_a_limit_without_a_budget(client: Client, settings: Settings) -> None:
    with driving(settings.model_copy(update={"max_tree": 2})) as driver:
        run = submit(client, 3, 1)
        driver.play()
    error = client.get(run.id).error
    assert error is not None and "may have 2 (max_tree)" in error
    assert client.children(run.id).runs == []


def test_what_cannot_be_added_is_refused(client: Client, driver: Driver) -> None:
    run = submit(client, 1, 1, tokens=1_000)
    for amounts in ({}, {"money": 1}, {"tokens": 0}, {"tokens": 1e12}, {"token": 1}):
        with pytest.raises(InvalidInput):
            client.add(run.id, **amounts)  # type: ignore[arg-type]
    play(driver)
    with pytest.raises(InvalidTransition, match="has completed and spends no more"):
        client.add(run.id, tokens=1)


def test_a_run_s_own_budget_is_raised_while_it_asks(client: Client, driver: Driver) -> None:
    run = client.submit(
        "shopper_of_the_purse", "g", {"rounds": 3, "count": 0}, budgets={"tokens": 100}
    )
    play(driver)
    assert client.get(run.id).status is RunStatus.INTERRUPTED
    client.add(run.id, tokens=100, by="ann")
    driver.sweep_and_play()
    assert client.get(run.id).status is RunStatus.INTERRUPTED, "it has spent that as well"
    with pytest.raises(InvalidInput, match="with a limit of 200"):
        client.resume(run.id)
    client.resume(run.id, add={"tokens": 1})
    play(driver)
    assert client.get(run.id).details["budgets"] == {"tokens": 201}
    assert client.get(run.id).status is RunStatus.COMPLETED
