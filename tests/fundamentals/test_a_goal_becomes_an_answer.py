"""A flow is a class: ``decide`` chooses the next command, the commands carry it out.

This is the README's greeter.
"""

from __future__ import annotations

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    RunStatus,
    command,
    register,
)
from tests.conftest import StartsWorkers


@register("greeter")
class Greeter(ControllerExecutorFlow):
    """Greets everyone named in the goal, one command at a time."""

    max_rounds = 20

    def decide(self, context: RoundContext) -> Command | Finish:
        names = context.goal.split()
        greeted = len(context.history)
        if greeted == len(names):
            return Finish([turn.observation for turn in context.history])
        return Command("greet", {"name": names[greeted]})

    @command(idempotent=True)
    def greet(self, context: RoundContext, name: str) -> str:
        return f"Hello, {name}!"


def test_a_goal_becomes_an_answer(client: Client, worker_process: StartsWorkers) -> None:
    # A run is safe from the moment `submit` returns. No worker is needed for that.
    run = client.submit("greeter", "Ada Grace")
    assert run.status is RunStatus.QUEUED

    # Any worker that knows the flow may take any of its rounds.
    worker_process(PERDURE_FLOW_MODULES=__name__)
    run = client.wait(run.id, timeout=30)
    assert run.answer == ["Hello, Ada!", "Hello, Grace!"]
    assert run.output == {"answer": run.answer, "status": "finished"}

    # The log of the run: two greetings are two cycles of Controller and Executor, and a last
    # Controller to finish.
    committed = [event.node for event in client.events(run.id) if event.type == "committed"]
    assert committed == ["Controller", "Executor", "Controller", "Executor", "Controller"]


def test_too_few_rounds_end_the_run_completed_but_unfinished(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_FLOW_MODULES=__name__)
    run = client.wait(client.submit("greeter", "Ada Grace Edsger", max_rounds=2).id, timeout=30)
    assert run.status is RunStatus.COMPLETED
    assert run.output == {
        "answer": "The maximum amount of rounds was reached before the flow found an answer.",
        "status": "unfinished",
    }
