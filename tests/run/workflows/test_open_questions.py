"""Several questions of a workflow at once: each is in the inbox, and each is answered by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import PositiveInt

from perdure import Ask, AsyncSteps, Client, RunStatus, Settings, Step, Steps, workflow
from perdure.testing import crash_lab
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import DONE, effect, journal, nothing_done, play

__all__ = ["nothing_done"]


@workflow("questions_plain")
def plain(steps: Steps) -> dict[str, Any]:
    """Ask three people at once, after a step."""
    color, number, done, word = steps.gather(
        [
            Ask("Which color?", {"of": "the wall"}, name="color"),
            Ask("How many?", expects=PositiveInt),
            Step(effect, "measure", idempotent=True),
            Ask("Which word?"),
        ]
    )
    steps.step(effect, "paint", name="paint")
    return {"color": color, "number": number, "word": word, "done": done}


@workflow("questions_live")
async def live(steps: AsyncSteps) -> dict[str, Any]:
    """Ask three people at once, in a coroutine."""
    color, number, done, word = await asyncio.gather(
        steps.ask("Which color?", {"of": "the wall"}, name="color"),
        steps.ask("How many?", expects=PositiveInt),
        steps.step(effect, "measure", idempotent=True),
        steps.ask("Which word?"),
    )
    await steps.step(effect, "paint", name="paint")
    return {"color": color, "number": number, "word": word, "done": done}


@workflow("questions_in_time")
def in_time(steps: Steps) -> list[Any]:
    return steps.gather(
        [Ask("Now?", deadline=0.05, default="late"), Ask("Ever?", deadline=0.05, default="never")]
    )


@workflow("questions_of_numbers")
def numbers(steps: Steps) -> list[Any]:
    return steps.gather(
        [Ask("How many?", expects=PositiveInt), Ask("How much?", expects=PositiveInt)]
    )


@workflow("questions_wrong")
def wrong(steps: Steps) -> list[Any]:
    return steps.gather([Ask("Now?", dedline=1)])


FLOWS = pytest.mark.parametrize("flow", ["questions_plain", "questions_live"])
ANSWERS = {"Which color?": "red", "How many?": 3, "Which word?": {"a": "b"}}
ANSWER = {"color": "red", "number": 3, "word": {"a": "b"}, "done": "measure is done"}


def asking(driver: Driver, count: int = 3) -> dict[str, str]:
    """Play until this number of questions is open. Return the runs that ask, by their question."""

    def asks() -> bool:
        driver.sweep_and_play()
        return len(open_questions(driver.client)) == count

    until(asks, f"{count} open questions", 10.0)
    return open_questions(driver.client)


def open_questions(client: Client) -> dict[str, str]:
    """Return the runs that ask, by their question."""
    return {each.question: each.run_id for each in client.inbox().waiting}


@FLOWS
@pytest.mark.parametrize("order", [list(ANSWERS), list(reversed(ANSWERS))])
def test_each_is_answered_by_itself_in_any_order_and_by_any_process(
    flow: str, order: list[str], client: Client, driver: Driver, settings: Settings
) -> None:
    run = client.submit(flow)
    asked = asking(driver)
    assert set(asked) == set(ANSWERS)
    assert DONE["measure"] == 1
    for number, question in enumerate(order, 1):
        with driving(settings) as other:  # Each answer is read by a process that knows nothing.
            client.resume(asked[question], ANSWERS[question])
            asking(other, 3 - number)
    done = play(driver, run)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, ANSWER)
    assert DONE["measure"] == DONE["paint"] == 1
    names = {"Which color?": "color", "How many?": "ask", "Which word?": "ask.2"}
    keys = [name for name, _ in journal(client, run)]
    assert keys == ["effect", *(names[question] for question in order), "paint"]


def test_an_answer_of_another_json_type_is_asked_again_at_once(
    client: Client, driver: Driver
) -> None:
    run = client.submit("questions_of_numbers")
    asked = asking(driver, 2)
    client.resume(asked["How many?"], "many")
    again = asking(driver, 2)
    [question] = [each for each in again if each.startswith("How many?")]
    assert "integer" in question and again[question] == asked["How many?"]
    [waiting] = [each for each in client.inbox().waiting if each.question == question]
    assert waiting.ways == ("--answer '7'",)
    client.resume(again[question], 3)
    client.resume(asked["How much?"], 4)
    assert play(driver, run).answer == [3, 4]


@FLOWS
def test_the_question_says_what_it_belongs_to(flow: str, client: Client, driver: Driver) -> None:
    run = client.submit(flow)
    asked = asking(driver)
    told = {each.question: each.data for each in client.inbox().waiting}
    assert told["Which color?"] == {"of": "the wall", "asks": "color"}
    assert told["How many?"] == {
        "asks": "ask",
        "expects": {"type": "integer", "exclusiveMinimum": 0},
    }
    assert {child.id for child in client.children(run.id)} == set(asked.values())


@FLOWS
def test_an_answer_that_does_not_fit_is_asked_for_again(
    flow: str, client: Client, driver: Driver
) -> None:
    run = client.submit(flow)
    for question, run_id in asking(driver).items():
        client.resume(run_id, -1 if question == "How many?" else ANSWERS[question])
    play(driver, run)
    [again] = client.inbox().waiting
    assert again.run_id == run.id  # One open question needs no child.
    assert again.question.startswith("How many? (the last answer does not fit: ")
    client.resume(run.id, "more")
    play(driver, run)
    client.resume(run.id, 3)
    assert play(driver, run).answer == ANSWER


def test_if_no_answer_fits_all_are_asked_again(client: Client, driver: Driver) -> None:
    run = client.submit("questions_of_numbers")
    for answer in (-1, 3):
        for question, run_id in asking(driver, 2).items():
            assert "does not fit" in question or answer == -1
            client.resume(run_id, answer)
        driver.sweep_and_play()
    assert play(driver, run).answer == [3, 3]


def test_each_has_its_own_deadline(client: Client, driver: Driver) -> None:
    run = client.submit("questions_in_time")
    assert play(driver, run).answer == ["late", "never"]


def test_a_question_that_a_person_stops_fails(client: Client, driver: Driver) -> None:
    run = client.submit("questions_plain")
    asked = asking(driver)
    client.request_stop(asked.pop("Which word?"))
    for question, run_id in asked.items():
        client.resume(run_id, ANSWERS[question])
    failed = play(driver, run)
    assert failed.status is RunStatus.ERRORED and "step ask.2 failed" in str(failed.error)


def test_questions_of_a_stopped_run_are_asked_again(client: Client, driver: Driver) -> None:
    run = client.submit("questions_live")
    asking(driver)
    client.request_stop(run.id)
    asking(driver, 0)
    client.resume(run.id)
    for question, run_id in asking(driver).items():
        client.resume(run_id, ANSWERS[question])
    assert play(driver, run).answer == ANSWER


def test_an_unknown_option_is_told(client: Client, driver: Driver) -> None:
    run = play(driver, client.submit("questions_wrong"))
    assert run.status is RunStatus.ERRORED and "did you mean 'deadline'" in str(run.error)


@pytest.mark.slow
def test_the_lab_answers_them_too() -> None:
    assert crash_lab("questions_of_numbers", answers=3).stories > 10
