"""What a person decides about a command counts for the rest of its step, in any process."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    Approval,
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    OutcomeUnknown,
    RoundContext,
    Run,
    RunStatus,
    Settings,
    command,
    register,
)
from perdure.worker.errors import Forbidden
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import DONE, effect, nothing_done, play, play_anywhere

__all__ = ["nothing_done"]


@register("decided")
class Decided(ControllerExecutorFlow):
    """One command, which the goal names."""

    approvers = "others"

    def decide(self, context: RoundContext) -> Any:
        if context.history:
            return Finish(context.history[-1].observation)
        return Command(context.goal, {"to": "ann"})

    @command(approval="always", in_doubt="ask")
    def careful(self, context: RoundContext, to: str) -> Any:
        """Pay. It asks for the amount, and is cut off before it does."""
        if context.answered:
            return effect(f"pay {context.answer} to {to}")
        if not DONE["begun"]:
            effect("begun")
            raise OutcomeUnknown("cut off")
        return Interrupt("how much?")

    @command(approval="always")
    def failing(self, to: str) -> str:
        """Pay, and report a failure."""
        effect(f"pay {to}")
        raise ValueError("timed out")

    @command(approval=Approval(deadline=0.01, default={"edit": {"to": "bob"}}))
    def hurried(self, to: str) -> str:
        """Pay."""
        return effect(f"pay {to}")


def kind_of_question(client: Client, run: Run) -> str:
    [question] = client.inbox().waiting
    assert question.run_id == run.id
    return question.kind


def test_a_command_that_asks_is_approved_and_found_in_doubt_once(
    client: Client, settings: Settings
) -> None:
    run = client.submit("decided", "careful", submitted_by="sue")
    answers = {"approval": {"edit": {"to": "bob"}}, "in_doubt": "retry", "question": 7}
    for kind, answer in answers.items():
        play_anywhere(settings, run)
        assert kind_of_question(client, run) == kind
        client.resume(run.id, answer, by="eve" if kind == "approval" else "sue")
    done = play_anywhere(settings, run)
    edited = {"by": "eve", "args": {"to": "bob"}}
    assert done.answer == {"result": "pay 7 to bob is done", "edited": edited}


def test_a_retry_of_the_run_needs_another_approval(client: Client, driver: Driver) -> None:
    run = client.submit("decided", "failing", submitted_by="sue")
    for times in (1, 2):
        assert play(driver, run).status is RunStatus.INTERRUPTED
        with pytest.raises(Forbidden):
            client.resume(run.id, "approve", by="sue")
        client.resume(run.id, "approve", by="bob")
        assert play(driver, run).status is RunStatus.ERRORED and DONE["pay ann"] == times
        client.retry(run.id)


def test_an_answer_at_the_deadline_is_not_said_to_be_a_persons(
    client: Client, settings: Settings
) -> None:
    run = client.submit("decided", "hurried", submitted_by="sue")
    with driving(settings) as driver:
        until(lambda: play(driver, run).status.ended, "the end")
    edited = {"by": "deadline", "args": {"to": "bob"}}
    assert client.get(run.id).answer == {"result": "pay bob is done", "edited": edited}
