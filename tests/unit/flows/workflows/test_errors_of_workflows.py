"""Errors of a workflow's function: their words, and which of its ends are errors."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from perdure import (
    Advance,
    AsyncSteps,
    End,
    FatalError,
    Renew,
    Step,
    StepFailed,
    Steps,
    Turn,
    UnstorableValue,
)
from tests.support.flow_registry import own_registry
from tests.support.tried_workflows import context_after, play_round

#: The finished steps of a test.
DONE: list[str] = []


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch)
    DONE.clear()


def did(what: str) -> str:
    DONE.append(what)
    return what


def fails(what: str) -> None:
    raise ValueError(f"no {what}")


def play(function: Callable[..., Any], turns: Sequence[Turn] = ()) -> Any:
    """Play one round of a workflow with this function, in a process that has not seen it before."""
    return play_round(function, context_after(turns))


def play_on(function: Callable[..., Any]) -> Any:
    """Play rounds until one does not go on; its outcome."""
    turns: list[Turn] = []
    while isinstance(outcome := play(function, turns), Advance):
        turns += outcome.turns
    return outcome


def error_of(function: Callable[..., Any]) -> str:
    with pytest.raises(FatalError) as raised:
        play_on(function)
    return str(raised.value)


# The error of a step


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_failure_has_no_cause_in_the_first_pass_as_after_a_replay(is_plain: bool) -> None:
    causes: list[BaseException | None] = []

    def plain(steps: Steps) -> None:
        try:
            steps.step(fails, "charge")
        except StepFailed as error:
            causes.append(error.__cause__)
        steps.step(did, "refund")

    async def live(steps: AsyncSteps) -> None:
        try:
            await steps.step(fails, "charge")
        except StepFailed as error:
            causes.append(error.__cause__)
        await steps.step(did, "refund")

    play_on(plain if is_plain else live)
    assert causes == [None, None]


def test_the_error_that_ends_the_run_has_the_line_that_raised_it_however_it_is_passed_on() -> None:
    def wraps(steps: Steps) -> None:
        try:
            steps.step(fails, "charge")
        except StepFailed as error:
            raise RuntimeError("the order failed") from error

    async def groups(steps: AsyncSteps) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(steps.step(fails, "charge"))

    for function in (wraps, groups):
        with pytest.raises(FatalError) as raised:
            play(function)
        failed = raised.value.__cause__
        assert failed is not None
        step = failed.exceptions[0] if isinstance(failed, ExceptionGroup) else failed.__cause__
        assert isinstance(step, StepFailed) and isinstance(step.__cause__, ValueError)


# Errors of a TaskGroup


def test_a_failure_in_a_task_group_is_told_as_the_failure_of_its_step() -> None:
    async def order(steps: AsyncSteps) -> None:
        works = [steps.step(fails, name, name=name) for name in ("charge", "ship", "mail")]
        raise ExceptionGroup("all", await asyncio.gather(*works, return_exceptions=True))

    async def nested(steps: AsyncSteps) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(inner(steps))

    async def inner(steps: AsyncSteps) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(steps.step(fails, "charge", name="charge"))

    told = error_of(nested)
    assert "step 0: step charge failed: ValueError: no charge. Not idempotent: charge." in told
    told = error_of(order)
    assert "step charge failed: ValueError: no charge, and 2 more: ship, mail. Not" in told
    assert "Not idempotent: charge, ship, mail." in told


def test_another_error_in_a_task_group_is_told_with_its_class_and_message() -> None:
    async def order(steps: AsyncSteps) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(typo())

    async def typo() -> None:
        raise KeyError("typo")

    assert "the workflow raised ExceptionGroup: " in (told := error_of(order))
    assert "KeyError: 'typo'" in told


@pytest.mark.parametrize("depth", [1, 2])
def test_a_task_of_a_task_group_may_restart_the_function(depth: int) -> None:
    async def pages(steps: AsyncSteps) -> None:
        await in_groups(steps, depth)

    async def in_groups(steps: AsyncSteps, depth: int) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(in_groups(steps, depth - 1) if depth else page(steps))

    async def page(steps: AsyncSteps) -> None:
        await steps.step(did, "page")
        steps.restart({"page": 2})

    renewed = play_on(pages)
    assert isinstance(renewed, Renew) and renewed.inputs == {"page": 2}


def test_a_restart_does_not_hide_the_error_of_another_task() -> None:
    async def order(steps: AsyncSteps) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(steps.step(fails, "charge"))
            group.create_task(restarts(steps))

    async def restarts(steps: AsyncSteps) -> None:
        try:
            await steps.sleep("1h")
        finally:
            steps.restart()

    assert "step fails failed: ValueError: no charge" in error_of(order)


# Retries that change nothing


def test_an_error_says_when_a_retry_does_not_try_the_failed_step_again() -> None:
    def cleans_up(steps: Steps) -> None:
        try:
            steps.step(fails, "charge", name="charge")
        finally:
            steps.step(did, "release")

    def raises_another(steps: Steps) -> None:
        try:
            steps.step(fails, "charge", name="charge")
        except StepFailed:
            steps.step(did, "release")
            raise RuntimeError("the order failed") from None

    async def live(steps: AsyncSteps) -> None:
        try:
            await steps.step(fails, "charge", name="charge")
        finally:
            await steps.step(did, "release")

    for function in (cleans_up, raises_another, live):
        told = error_of(function)
        assert "A retry does not try step charge again" in told, function
        assert "perdure fork run STEP" in told


def test_an_error_of_a_step_that_a_retry_tries_again_does_not_say_so() -> None:
    def order(steps: Steps) -> None:
        steps.step(did, "load")
        steps.step(fails, "charge", name="charge")

    assert "does not try" not in error_of(order)


def test_a_failed_step_that_a_retry_tries_again_is_to_be_checked_whatever_the_error_says() -> None:
    def order(steps: Steps) -> None:
        with suppress(StepFailed):
            steps.step(fails, "charge", name="charge")
        raise KeyError("typo")

    def both(steps: Steps) -> None:
        steps.gather([Step(fails, name, name=name) for name in ("charge", "ship")])

    assert "Not idempotent: charge. Before you retry" in error_of(order)
    assert "Not idempotent: charge, ship. Before you retry" in error_of(both)


# Steps that the function leaves


def test_a_function_may_end_while_another_of_its_tasks_is_unfinished() -> None:
    async def nested(steps: AsyncSteps) -> str:
        try:
            await asyncio.gather(fail(steps), work(steps))
        except StepFailed:
            return "partial"
        return "all"

    async def fail(steps: AsyncSteps) -> None:
        await steps.step(fails, "charge")

    async def work(steps: AsyncSteps) -> None:
        for name in "abc":
            await steps.step(did, name)

    async def many(steps: AsyncSteps) -> str:
        try:
            await asyncio.gather(steps.step(fails, "x"), *(steps.step(did, "y") for _ in range(20)))
        except StepFailed:
            return "partial"
        return "all"

    async def first(steps: AsyncSteps) -> str:
        tasks = [asyncio.create_task(each) for each in (steps.step(did, "a"), work(steps))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return "partial"

    for function in (nested, many, first):
        outcome = play_on(function)
        assert isinstance(outcome, End) and outcome.answer == "partial", function


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_function_may_leave_an_asynchronous_generator_unfinished() -> None:
    async def first(steps: AsyncSteps) -> str:
        async for each in items(steps):
            return str(each)
        return "none"

    async def items(steps: AsyncSteps) -> Any:
        try:
            for name in "ab":
                yield await steps.step(did, name)
        finally:
            await steps.step(did, "clean")

    outcome = play_on(first)
    assert isinstance(outcome, End) and outcome.answer == "a"


@pytest.mark.parametrize("is_kept_in_a_set", [True, False])
def test_a_task_that_no_code_awaits_is_no_success(is_kept_in_a_set: bool) -> None:
    async def forgets(steps: AsyncSteps) -> str:
        background = {asyncio.create_task(work(steps))}
        if is_kept_in_a_set:
            for task in list(background):
                task.add_done_callback(background.discard)
        return str(await steps.step(did, "a"))

    async def work(steps: AsyncSteps) -> None:
        for name in "bcd":
            await steps.step(did, name, name=name)

    assert "has never awaited" in error_of(forgets)


# Finished steps


class Receipt(BaseModel):
    """An answer that cannot be written as JSON."""

    items: int = 0

    @field_serializer("items")
    def write(self, items: int) -> float:
        return 12 / items


def answers_what_has_no_json(steps: Steps) -> Any:
    steps.step(did, "charge")
    return Receipt()


def answers_a_type_that_has_no_json(steps: Steps) -> Receipt:
    steps.step(did, "charge")
    return Receipt()


def exits(steps: Steps) -> None:
    steps.step(did, "charge")
    sys.exit("no stock")


def is_closed(steps: Steps) -> None:
    steps.step(did, "charge")
    raise GeneratorExit


async def exits_in_a_task(steps: AsyncSteps) -> None:
    async def ends() -> None:
        await steps.step(did, "charge")
        sys.exit("no stock")

    await asyncio.create_task(ends())


async def cancels_itself(steps: AsyncSteps) -> None:
    await steps.step(did, "charge")
    raise asyncio.CancelledError


async def naps(steps: AsyncSteps) -> None:
    await steps.step(did, "charge")
    await asyncio.get_running_loop().create_future()


async def forgets_to_await(steps: AsyncSteps) -> None:
    await steps.step(did, "charge")
    steps.step(did, "notify")  # type: ignore[unused-coroutine]


@pytest.mark.filterwarnings("ignore:.*was never awaited")
@pytest.mark.parametrize(
    ("function", "raised"),
    [
        (answers_what_has_no_json, UnstorableValue),
        (answers_a_type_that_has_no_json, FatalError),
        (exits, FatalError),
        (is_closed, FatalError),
        (exits_in_a_task, FatalError),
        (cancels_itself, FatalError),
        (naps, FatalError),
        (forgets_to_await, FatalError),
    ],
)
def test_finished_steps_are_committed_before_whatever_ends_the_function(
    function: Callable[..., Any], raised: type[BaseException]
) -> None:
    committed = play(function)
    assert isinstance(committed, Advance)
    assert [turn.command.name for turn in committed.turns if turn.command] == ["did"]
    with pytest.raises(raised):
        play(function, committed.turns)
    assert DONE == ["charge"]


# Failed steps


def exits_after_a_failure(steps: Steps) -> None:
    try:
        steps.step(fails, "charge")
    except StepFailed:
        sys.exit("declined")


async def exits_in_a_task_after_a_failure(steps: AsyncSteps) -> None:
    async def ends() -> None:
        try:
            await steps.step(fails, "charge")
        except StepFailed:
            sys.exit("declined")

    await asyncio.create_task(ends())


async def cancels_itself_after_a_failure(steps: AsyncSteps) -> None:
    try:
        await steps.step(fails, "charge")
    except StepFailed:
        raise asyncio.CancelledError from None


@pytest.mark.parametrize(
    "function",
    [
        exits_after_a_failure,
        exits_in_a_task_after_a_failure,
        cancels_itself_after_a_failure,
    ],
)
def test_a_failed_step_is_not_tried_again_because_the_function_exits(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(FatalError, match="Not idempotent: fails"):
        play(function)
