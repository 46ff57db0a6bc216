"""Budgets of commands: executed commands are counted, and nothing else."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from perdure import (
    CircularFlow,
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    InvalidInput,
    Node,
    Retry,
    RetryableError,
    RoundContext,
    RunStatus,
    Settings,
    command,
    register,
)
from perdure.worker.app import engine_of, make_app
from perdure.worker.domain.budget import EXHAUSTED
from tests.support.runs_in_every_status import play

#: The executions of the test's command; each call is noted.
CALLS: list[int] = []


@register("shopper")
class Shopper(ControllerExecutorFlow):
    """Buys as often as its inputs say; what costs more than ten needs a person's word."""

    budgets = {"commands.buy": 2}  # noqa: RUF012

    def decide(self, context: RoundContext) -> Command | Finish:
        prices = context.inputs["prices"]
        return (
            Finish(len(prices))
            if len(context.history) == len(prices)
            else Command("buy", {"price": prices[len(context.history)]})
        )

    @command(approval=lambda args: args["price"] > 10)
    def buy(self, context: RoundContext, price: int) -> str:
        """Buy something."""
        CALLS.append(price)
        if price < 0 and len(CALLS) <= -price:
            raise RetryableError("the shop is closed", retry_after=0)
        return f"bought for {price}"


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def bought(client: Client, run_id: str) -> float:
    spent = client.get(run_id).details.get("spent", {})
    return float(spent.get("commands.buy", 0))


def test_asking_for_approval_and_a_refusal_are_not_counted_and_what_was_carried_out_is_once(
    client: Client, settings: Settings
) -> None:
    run = client.submit("shopper", "g", {"prices": [5, 20, 30, 7]})
    play(settings, run.id)
    assert client.inbox().waiting[0].kind == "approval" and bought(client, run.id) == 1, (
        "the second one only asks yet"
    )
    client.resume(run.id, {"refuse": "too dear"})
    play(settings, run.id)
    assert client.inbox().waiting[0].args == {"price": 30} and bought(client, run.id) == 1, (
        "a refusal buys nothing"
    )
    client.resume(run.id, {"edit": {"price": 29}})
    play(settings, run.id)
    assert (CALLS, bought(client, run.id)) == ([5, 29], 2)
    assert client.get(run.id).state.interrupt_reason == EXHAUSTED, (
        "the third purchase is one too many"
    )
    assert client.inbox().waiting[0].data == {"budget": "commands.buy", "limit": 2, "spent": 2}
    with pytest.raises(InvalidInput):
        client.resume(run.id)
    client.resume(run.id, add={"commands.buy": 1})
    play(settings, run.id)
    assert (client.get(run.id).status, CALLS, bought(client, run.id)) == (
        RunStatus.COMPLETED,
        [5, 29, 7],
        3,
    )


def test_an_attempt_that_says_itself_that_it_did_nothing_is_not_counted(
    client: Client, settings: Settings
) -> None:
    run = client.submit("shopper", "g", {"prices": [-2, 5]})
    with closing(engine_of(make_app(settings))) as engine:
        for _ in range(40):
            now = client.get(run.id)
            if now.status.ended:
                break
            engine.rounds.run(run.id, now.details["epoch"], now.state.step)
            engine.new_sweeper("all", "solo", 1).sweep()
    assert (client.get(run.id).status, CALLS, bought(client, run.id)) == (
        RunStatus.COMPLETED,
        [-2, -2, -2, 5],
        2,
    )


def test_an_attempt_whose_worker_was_lost_is_counted_as_if_it_had_been_carried_out(
    client: Client, settings: Settings
) -> None:
    run = client.submit("shopper", "g", {"prices": [5]}, interrupt_before=["Executor"])
    play(settings, run.id)
    client.resume(run.id)
    _lose(client, run.id)
    play(settings, run.id)
    assert (client.get(run.id).status, CALLS, bought(client, run.id)) == (
        RunStatus.COMPLETED,
        [5],
        2,
    )


def _lose(client: Client, run_id: str) -> None:
    """Claim the round as a worker that dies; a sweep finds it."""
    from perdure.worker.ids import process_name
    from tests.support.runs import try_claim

    store: Any = client._store
    assert try_claim(store, run_id, known=("shopper",), claim=f"{process_name()}.x").id  # type: ignore[union-attr]
    fields = store.reads.fields(run_id)
    store.rounds.release_dead_lease(
        run_id, epoch=int(fields["epoch"]), step=int(fields["step"]), process=process_name()
    )
    store.fleet.sweep(lease=4_000, max_losses=3, jitter=0.0)


@register("dollar_a_round")
class DollarARound(CircularFlow):
    """Spends a dollar in each round, and has no controller."""

    topology = (Node("Executor", "spend"),)

    def spend(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        context.spend(money=1)
        return {self.early_exit_key: context.step == 9, "answer": "all is spent"}


@register("dollar_an_attempt")
class DollarAnAttempt(ControllerExecutorFlow):
    """Spends a dollar in each attempt of a command that never succeeds."""

    def decide(self, context: RoundContext) -> Command | Finish:
        return Command("ask", {})

    @command(idempotent=True, retry=Retry(max_attempts=20, initial=0))
    def ask(self, context: RoundContext) -> str:
        """Ask."""
        context.spend(money=1)
        raise RetryableError("no answer", retry_after=0)


@pytest.mark.parametrize("flow", ["dollar_a_round", "dollar_an_attempt"])
def test_money_that_no_controller_spends_is_limited_too(
    client: Client, settings: Settings, flow: str
) -> None:
    run = client.submit(flow, "g", budgets={"money": 2})
    with closing(engine_of(make_app(settings))) as engine:
        for limit in (2, 3):
            for _ in range(40):
                now = client.get(run.id)
                if now.status == RunStatus.INTERRUPTED:
                    break
                engine.rounds.run(run.id, now.details["epoch"], now.state.step)
                engine.new_sweeper("all", "solo", 1).sweep()
            held = client.get(run.id)
            assert held.status == RunStatus.INTERRUPTED, "it is held at its limit"
            assert held.details["spent"] == {"money": limit}
            client.resume(run.id, add={"money": 1})
