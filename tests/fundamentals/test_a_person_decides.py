"""A run can wait for a person, for minutes or for months: it holds no worker while it does."""

from __future__ import annotations

import pytest

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    InvalidTransition,
    RoundContext,
    RunStatus,
    command,
    register,
)
from tests.conftest import StartsWorkers


@register("buyer")
class Buyer(ControllerExecutorFlow):
    """Buys one thing, if a person allows it."""

    def decide(self, context: RoundContext) -> Command | Finish:
        if context.observation is None:
            return Command("buy", {"thing": context.goal})
        return Finish(context.observation)

    @command
    def buy(self, context: RoundContext, thing: str) -> str | Interrupt:
        if context.answer is None:
            return Interrupt(f"May I buy {thing}?", data={"price": 12})
        return f"bought {thing}" if context.answer == "yes" else f"left {thing} alone"


@pytest.mark.parametrize(("answer", "outcome"), [("yes", "bought tea"), ("no", "left tea alone")])
def test_a_person_decides(
    client: Client, worker_process: StartsWorkers, answer: str, outcome: str
) -> None:
    worker_process(PERDURE_FLOW_MODULES=__name__)
    run = client.wait(client.submit("buyer", "tea").id, timeout=30)

    # The node that asked has committed nothing: it will run again, in the same step, with the
    # answer.
    assert run.status is RunStatus.INTERRUPTED
    assert run.state.interrupt_reason == "May I buy tea?"
    assert run.state.interrupt_data == {"price": 12}

    client.resume(run.id, answer=answer)
    assert client.wait(run.id, timeout=30).answer == outcome

    # An answer is used once.
    with pytest.raises(InvalidTransition):
        client.resume(run.id, answer="yes")


def test_every_command_can_be_looked_at_before_it_runs(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_FLOW_MODULES=__name__)
    run = client.wait(client.submit("buyer", "tea", interrupt_before=["Executor"]).id, timeout=30)
    assert (run.status, run.state.current_node) == (RunStatus.INTERRUPTED, "Executor")

    # A person changed their mind: a stopped run keeps its state, and the approval it was waiting
    # for is still required.
    assert client.request_stop(run.id, reason="no money").stopped
    assert client.resume(run.id).status is RunStatus.INTERRUPTED
