"""An answer counts, whatever the rule of the approval says when the run goes on."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client, Run, RunStatus, Settings
from tests.support.example_flows.changing_rules import EDITABLE, FLOWS, RULE
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import (
    DONE,
    let_deadline_pass,
    nothing_done,
    play,
    play_one,
)

__all__ = ["nothing_done"]


@pytest.fixture(autouse=True)
def rules_ask() -> None:
    """At the beginning of a test, the rules ask before each call."""
    RULE.update(needed=True, args="ann")


def played_to_question(client: Client, driver: Driver, flow: str) -> Run:
    """Submit a run, and play until it, or a child run of it, waits for a person."""
    run = client.submit(flow, "go")
    until(lambda: not play_one(driver) and client.inbox().waiting, "the question")
    return run


def answer(client: Client, answer: Any) -> None:
    """Answer the one question that waits."""
    [question] = client.inbox().waiting
    client.resume(question.run_id, answer)


@pytest.mark.parametrize("flow", FLOWS)
def test_what_a_person_refused_is_not_carried_out_when_the_rule_has_changed(
    client: Client, driver: Driver, settings: Settings, flow: str
) -> None:
    run = played_to_question(client, driver, flow)
    RULE["needed"] = False
    answer(client, {"refuse": "never!"})
    with driving(settings) as other:
        done = play(other, run)
    assert done.status is RunStatus.COMPLETED and "never!" in str(done.answer), client.why(run.id)
    assert not DONE["send ann"]


def test_what_the_deadline_refused_is_not_carried_out_when_the_rule_has_changed(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = played_to_question(client, driver, "changing_deadline")
    RULE["needed"] = False
    let_deadline_pass(client, run.id)
    with driving(settings) as other:
        done = play(other, run)
    assert done.status is RunStatus.COMPLETED and "refuse" in str(done.answer), done.answer
    assert not DONE["send ann"]


@pytest.mark.parametrize("flow", EDITABLE)
def test_the_arguments_that_a_person_changed_count_when_the_rule_has_changed(
    client: Client, driver: Driver, settings: Settings, flow: str
) -> None:
    run = played_to_question(client, driver, flow)
    RULE["needed"] = False
    answer(client, {"edit": {"to": "bob"}})
    with driving(settings) as other:
        assert play(other, run).status is RunStatus.COMPLETED, client.why(run.id)
    assert (DONE["send ann"], DONE["send bob"]) == (0, 1)


@pytest.mark.parametrize("flow", FLOWS)
def test_what_a_person_approved_is_carried_out_once_when_the_rule_changes_to_and_fro(
    client: Client, driver: Driver, settings: Settings, flow: str
) -> None:
    run = played_to_question(client, driver, flow)
    RULE["needed"] = False
    answer(client, "approve")

    def has_ended() -> bool:
        with driving(settings) as other:  # Functions are run again from their beginning.
            play_one(other)
        RULE["needed"] = not RULE["needed"]
        return client.get(run.id).status.ended

    until(has_ended, "the end of the run")
    assert client.get(run.id).status is RunStatus.COMPLETED, client.why(run.id)
    assert DONE["send ann"] == 1 and not client.inbox().waiting


def test_an_approval_of_other_arguments_approves_nothing_whatever_the_rule_says(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = played_to_question(client, driver, "changing_step")
    RULE.update(needed=False, args="bob")
    answer(client, "approve")
    with driving(settings) as other:
        assert play(other, run).status is RunStatus.INTERRUPTED
        assert not DONE
        [question] = client.inbox().waiting
        assert "the last answer was about other arguments" in question.question
        assert question.args == {"name": "send bob"}
        client.resume(run.id, "approve")
        assert play(other, run).answer == "send bob is done"
