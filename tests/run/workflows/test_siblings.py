"""Everything of a step belongs to it alone, also beside others: records, signals, files, limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from perdure import (
    AsyncSteps,
    Client,
    File,
    Retry,
    RoundContext,
    RunStatus,
    Step,
    StepFailed,
    Steps,
    workflow,
)
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.workflow_effects import DEADLY, DONE, effect, nothing_done, play

__all__ = ["nothing_done"]

FAST = {"initial": 0.0, "maximum": 0.0}


def charge(card: str, context: RoundContext) -> str:
    receipt = context.once("receipt", lambda: effect(f"charge {card}"))
    effect(f"book {card}")
    return str(receipt)


@workflow("siblings_charge")
def charges(steps: Steps) -> list[str]:
    return steps.gather(Step(charge, card, idempotent=True) for card in ("a", "b", "c"))


@pytest.mark.parametrize("deadly", [[], ["book a"], ["book a", "book b", "book c"], ["charge b"]])
def test_each_step_has_its_own_records(client: Client, driver: Driver, deadly: list[str]) -> None:
    DEADLY.update(deadly)
    done = play(driver, client.submit("siblings_charge"))
    assert done.answer == ["charge a is done", "charge b is done", "charge c is done"]
    for card in "abc":
        assert DONE[f"charge {card}"] == 1 + (f"charge {card}" in deadly)


@workflow("siblings_alone")
def alone(steps: Steps) -> str:
    return str(steps.step(like_itself, name="charge", idempotent=True))


def like_itself(context: RoundContext) -> str:
    receipt = context.once("charge", lambda: effect("charge"))
    effect("book")
    return str(receipt)


def test_a_record_may_have_the_name_of_its_step(client: Client, driver: Driver) -> None:
    DEADLY["book"] = 1
    assert play(driver, client.submit("siblings_alone")).answer == "charge is done"
    assert DONE["charge"] == 1


def records(many: int, context: RoundContext) -> int:
    for number in range(many):
        context.once(f"n{number}", lambda: 1)
    return many


@workflow("siblings_record_many")
def record_many(steps: Steps, many: list[int]) -> Any:
    try:
        return steps.gather(Step(records, each, idempotent=True) for each in many)
    except StepFailed as error:
        return error.reason


def test_each_of_several_steps_may_record_as_much_as_one(client: Client, driver: Driver) -> None:
    run = client.submit("siblings_record_many", inputs={"many": [64] * 4})
    assert play(driver, run).answer == [64] * 4
    run = client.submit("siblings_record_many", inputs={"many": [1, 65]})
    assert "once('n64', ...): the step has recorded 64 results" in play(driver, run).answer


@workflow("siblings_named_alike")
async def named_alike(steps: AsyncSteps) -> list[str]:
    works = (
        steps.step(fails, "a", name="a", retry={"max_attempts": 1}),
        steps.step(effect, "a-failed", name="a-failed", idempotent=True),
        steps.step(effect, "b", name="b", idempotent=True),
    )
    return [str(each) for each in await asyncio.gather(*works, return_exceptions=True)]


def test_the_failure_of_a_step_is_not_taken_for_a_step_of_that_name(
    client: Client, driver: Driver
) -> None:
    DEADLY["b"] = 1
    failed, other, _ = play(driver, client.submit("siblings_named_alike")).answer
    assert (failed, other) == ("step a failed: ValueError: a", "a-failed is done")
    assert DONE["a"] == 1


def tells(name: str, context: RoundContext) -> str:
    text = "".join(f"{name}{number} " for number in range(20))
    for word in text.split(" "):
        context.stream(f"{word} ")
    return text


@workflow("siblings_tell")
def tell_at_once(steps: Steps) -> list[str]:
    return steps.gather(Step(tells, name, name=name, idempotent=True) for name in ("a", "b"))


def test_texts_of_concurrent_steps_are_shown_apart(client: Client, driver: Driver) -> None:
    run = client.submit("siblings_tell")
    answer = play(driver, run).answer
    texts = {"a": "", "b": ""}
    for item in client.stream(run.id):
        if item.type == "text":
            texts[item.part] += item.text
    assert [text.rstrip() for text in texts.values()] == [text.rstrip() for text in answer]


def takes(name: str, context: RoundContext) -> list[int]:
    taken = [context.take("paid"), context.take("paid")]
    numbers = [each.payload for each in taken if each is not None]
    for each in taken:
        if each is not None:
            context.reply(each, f"{name} has {each.payload}")
    effect(name)
    return numbers


@workflow("siblings_take")
def take(steps: Steps, names: list[str]) -> list[list[int]]:
    return steps.gather(Step(takes, name, idempotent=True) for name in names)


@pytest.mark.parametrize("deadly", [[], ["b"], ["a", "c"], ["a", "b", "c"]])
def test_a_signal_goes_to_one_step_in_order_and_once(
    client: Client, driver: Driver, deadly: list[str]
) -> None:
    DEADLY.update(deadly)
    run = client.submit("siblings_take", inputs={"names": ["a", "b", "c"]})
    for number in range(5):
        client.signal(run.id, "paid", number)
    answer = play(driver, run).answer
    assert all(numbers == sorted(numbers) for numbers in answer)
    assert sorted(number for numbers in answer for number in numbers) == list(range(5))
    replies = [client.reply(run.id, number + 1, "paid") for number in range(5)]
    taker = {
        number: name for name, numbers in zip("abc", answer, strict=True) for number in numbers
    }
    assert [each.value for each in replies] == [f"{taker[n]} has {n}" for n in range(5)]


def remembers(name: str, context: RoundContext) -> str:
    context.remember(f"of_{name}", effect(name))
    return name


@workflow("siblings_remember")
def remember(steps: Steps) -> Any:
    steps.gather([Step(remembers, "a", idempotent=True), Step(remembers, "b", idempotent=True)])
    steps.step(effect, "after", idempotent=True)
    return [steps.context.values[f"of_{name}"] for name in ("a", "b")]


@pytest.mark.parametrize("deadly", [None, "a", "b"])
def test_what_a_step_remembers_is_kept_when_its_sibling_dies(
    client: Client, driver: Driver, deadly: str | None
) -> None:
    if deadly:
        DEADLY[deadly] = 1
    assert play(driver, client.submit("siblings_remember")).answer == ["a is done", "b is done"]


def attaches(context: RoundContext) -> Any:
    return context.attach(File("a.txt", b"text", "text/plain"))


@workflow("siblings_attach")
async def attach(steps: AsyncSteps) -> Any:
    return await asyncio.gather(
        steps.step(attaches, idempotent=True), steps.step(charge, "a", idempotent=True)
    )


def test_a_file_of_one_step_is_no_concern_of_another_ones_record(
    client: Client, driver: Driver
) -> None:
    for _ in range(5):
        done = play(driver, client.submit("siblings_attach"))
        assert done.status is RunStatus.COMPLETED and done.answer[1] == "charge a is done"
        assert client.file(done.id, done.answer[0]["file"]).content == b"text"


def fails(name: str) -> None:
    effect(name)
    raise ValueError(name)


@workflow("siblings_retry", retry={"max_attempts": 3, **FAST})
async def retry(steps: AsyncSteps, policies: dict[str, Any]) -> list[str]:
    works = (
        steps.step(fails, name, name=name, idempotent=True, retry=policy and {**FAST, **policy})
        for name, policy in policies.items()
    )
    return [str(each) for each in await asyncio.gather(*works, return_exceptions=True)]


@pytest.mark.parametrize("first", [2, 5])
def test_each_step_is_tried_as_often_as_its_own_policy_says(
    client: Client, driver: Driver, first: int
) -> None:
    policies = {
        "a": {"max_attempts": first},
        "b": {"max_attempts": 7 - first},
        "c": None,
        "d": {"max_attempts": 5, "not_on": ["ValueError"]},
        "e": {"within": 0.0},
    }
    done = play(driver, client.submit("siblings_retry", inputs={"policies": policies}))
    assert done.status is RunStatus.COMPLETED, client.why(done.id)
    assert Counter(a=first, b=7 - first, c=3, d=1, e=1) == DONE


async def hangs(name: str) -> str:
    effect(name)
    await asyncio.sleep(3600)
    return name


@workflow("siblings_late")
async def late(steps: AsyncSteps, idempotent: bool, attempts: int, siblings: int) -> Any:
    options: dict[str, Any] = {"idempotent": idempotent, "timeout": 0.2}
    slow = steps.step(hangs, "slow", name="slow", retry=Retry(attempts, **FAST), **options)
    quick = [steps.step(effect, f"quick {number}", idempotent=True) for number in range(siblings)]
    try:
        return await asyncio.gather(slow, *quick)
    except StepFailed as error:
        undone = await steps.step(effect, "compensate", idempotent=True)
        return [error.error, error.reason, undone]


@pytest.mark.parametrize("siblings", [0, 2])
@pytest.mark.parametrize(("idempotent", "attempts"), [(True, 1), (True, 3), (False, 1)])
def test_a_step_that_takes_too_long_fails_and_the_function_may_compensate(
    client: Client, driver: Driver, siblings: int, idempotent: bool, attempts: int
) -> None:
    inputs = {"idempotent": idempotent, "attempts": attempts, "siblings": siblings}
    done = play(driver, client.submit("siblings_late", inputs=inputs))
    assert done.status is RunStatus.COMPLETED, client.why(done.id)
    error, reason, undone = done.answer
    assert error == "StepTimedOut" and "took longer than its time limit (0.2 s)" in reason
    assert undone == "compensate is done" and DONE["slow"] == attempts
    assert all(DONE[f"quick {number}"] == 1 for number in range(siblings))


def test_a_step_that_took_too_long_and_may_have_happened_asks_a_person(
    client: Client, driver: Driver
) -> None:
    inputs = {"idempotent": False, "attempts": 3, "siblings": 1}
    run = client.submit("siblings_late", inputs=inputs)
    assert play(driver, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert (question.kind, question.command) == ("in_doubt", "slow")
    client.resume(run.id, {"result": "seen"})
    assert play(driver, run).answer == ["seen", "quick 0 is done"]
    assert DONE["slow"] == 1


def ignores(context: RoundContext) -> str:
    """Play on when the time is over, as a function does that never looks."""
    until(context.cancelled.is_set, "the end of the step's time")
    return effect("ignores")


@workflow("siblings_ignores")
def ignoring(steps: Steps) -> str:
    try:
        return str(steps.step(ignores, timeout=0.1, idempotent=True, retry=Retry(1)))
    except StepFailed as error:
        return error.error


def test_the_result_of_a_step_that_goes_on_behind_its_time_limit_is_not_used(
    client: Client, driver: Driver
) -> None:
    assert play(driver, client.submit("siblings_ignores")).answer == "StepTimedOut"
    assert DONE["ignores"] == 1


@workflow("siblings_refused")
def refused(steps: Steps) -> str:
    try:
        return str(steps.step(effect, "pay", approval="always", idempotent=True))
    except StepFailed as error:
        return error.reason


def test_a_refused_step_is_not_tried_again(client: Client, driver: Driver) -> None:
    run = client.submit("siblings_refused")
    play(driver, run)
    client.resume(run.id, {"refuse": "never"})
    done = play(driver, run)
    assert done.answer == "never" and done.details["failures"] == 0
    assert not [each for each in client.events(run.id) if each.type == "failed"]


def says_refused() -> dict[str, str]:
    return {"refused": "by the bank"}


@workflow("siblings_says_refused")
def says(steps: Steps) -> Any:
    return steps.step(says_refused, approval="always")


def test_a_result_that_looks_like_a_refusal_is_a_result(client: Client, driver: Driver) -> None:
    run = client.submit("siblings_says_refused")
    play(driver, run)
    client.resume(run.id, "approve")
    assert play(driver, run).answer == {"refused": "by the bank"}
