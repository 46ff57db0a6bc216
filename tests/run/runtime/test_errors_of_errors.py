"""A round settles whatever an exception or a result of the user's classes raises in its turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import (
    AsyncSteps,
    CircularFlow,
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    Node,
    Retry,
    RetryableError,
    RoundContext,
    StepFailed,
    command,
    register,
    workflow,
)
from perdure.flows.core.errors import FatalError
from tests.support.cases import EachCase, cases_of
from tests.support.round_driver import Driver


class Broken(RuntimeError):
    """The error that the classes below raise."""


class NoText(Exception):
    def __str__(self) -> str:
        raise Broken("no text")

    __repr__ = __str__


class NoTextToRetry(RetryableError):
    def __str__(self) -> str:
        raise Broken("no text")


class NoFatalText(FatalError):
    def __str__(self) -> str:
        raise Broken("no text")


class OtherText(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # noqa: PLE0307


class ExitText(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class ExitAttributes(Exception):
    def __getattr__(self, name: str) -> Any:
        raise SystemExit(name)


class NoNotes(Exception):
    @property
    def __notes__(self) -> Any:
        raise Broken("no notes")


class NoAttributes(Exception):
    """Behaves like a mapping. Python cannot format it: it looks for ``__notes__``."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class OddSyntax(SyntaxError):
    """Has a field that Python cannot format."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.filename, self.lineno, self.offset, self.text = "f", 1, 1, 5  # type: ignore[assignment]


class Caused(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.__cause__ = NoText()


class NoRepr:
    def __repr__(self) -> str:
        raise Broken("no repr")

    __str__ = __repr__


class NoTruth(NoRepr):
    def __bool__(self) -> bool:
        raise Broken("no truth")

    def __eq__(self, other: object) -> bool:
        raise Broken("not equal")

    __hash__ = None  # type: ignore[assignment]


class NoItems(dict[str, Any]):
    def __iter__(self) -> Iterator[str]:
        raise Broken("no items")

    def items(self) -> Any:
        raise Broken("no items")

    def keys(self) -> Any:
        raise Broken("no keys")


class NoAwaiting:
    def __await__(self) -> Any:
        raise Broken("no awaiting")


RAISED: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        NoText, NoTextToRetry, NoFatalText, OtherText, NoNotes, NoAttributes, OddSyntax, Caused,
        ExitText, ExitAttributes,
    )
}  # fmt: skip
RETURNED = {kind.__name__: kind for kind in (NoRepr, NoTruth, NoItems, NoAwaiting)}
KINDS: dict[str, Any] = {**RAISED, **RETURNED}


def odd(kind: str) -> Any:
    """Raise an exception of a kind, or return a result of it."""
    if kind in RAISED:
        raise RAISED[kind]("a message")
    return RETURNED[kind]()


@register("odd_ring")
class Ring(CircularFlow):
    """A node that raises or returns an odd value."""

    topology = (Node("A", "a"),)
    retry = Retry(max_attempts=1)

    def a(self, state: Any, context: RoundContext) -> Any:
        return odd(context.goal)


@register("odd_answer")
class Answer(Ring):
    """A node that answers an odd value."""

    def a(self, state: Any, context: RoundContext) -> Any:
        return {"EARLY_EXIT": True, "answer": odd(context.goal)}


@register("odd_command")
class OneCommand(ControllerExecutorFlow):
    """A command of a flow whose code decides."""

    retry = Retry(max_attempts=1)

    def decide(self, context: RoundContext) -> Any:
        return Finish("done") if context.history else Command("act", {"kind": context.goal})

    @command(idempotent=True)
    def act(self, kind: str) -> Any:
        """Act."""
        return odd(kind)


@register("odd_observed")
class Observed(OneCommand):
    """A command whose errors the controller observes."""

    reads_errors = True


@register("odd_decision")
class Decision(OneCommand):
    """A controller that raises or decides an odd value."""

    def decide(self, context: RoundContext) -> Any:
        return odd(context.goal)


@register("odd_rule")
class Rule(OneCommand):
    """An approval rule that raises or returns an odd value."""

    @command(idempotent=True, approval=lambda args: odd(args["kind"]))
    def act(self, kind: str) -> Any:
        """Act."""
        return "done"


@register("odd_estimate")
class Estimate(OneCommand):
    """An estimate of a round's spending."""

    def estimate(self, node: str, context: RoundContext) -> Any:
        return odd(context.goal)


@register("odd_policy")
class Policy(OneCommand):
    """A retry policy that raises, behind an exception without a text."""

    def retry_of(self, node: str, values: Any) -> Any:
        return odd(values.get("kind", "NoText"))


@workflow("odd_steps", retry={"max_attempts": 1})
async def steps(steps: AsyncSteps, goal: str) -> str:
    try:
        return str(await steps.step(odd, goal))
    except StepFailed as error:
        return error.reason


@workflow("odd_siblings", retry={"max_attempts": 1})
async def siblings(steps: AsyncSteps, goal: str) -> str:
    works = [steps.step(odd, goal, idempotent=True) for _ in range(2)]
    return str([str(each) for each in await asyncio.gather(*works, return_exceptions=True)])


@workflow("odd_arguments", retry={"max_attempts": 1})
async def arguments(steps: AsyncSteps, goal: str) -> str:
    return str(await steps.step(lambda given: "done", KINDS[goal](*["x"] * (goal in RAISED))))


@workflow("odd_function", retry={"max_attempts": 1})
async def function(steps: AsyncSteps, goal: str) -> Any:
    await steps.step(lambda: 1, name="one")
    return odd(goal)


FLOWS = [
    "odd_ring", "odd_answer", "odd_command", "odd_observed", "odd_decision", "odd_rule",
    "odd_estimate", "odd_policy", "odd_steps", "odd_siblings", "odd_arguments", "odd_function",
]  # fmt: skip


@pytest.mark.parametrize("flow", FLOWS)
def test_a_round_settles_whatever_the_users_classes_raise(
    client: Client, driver: Driver, each_case: EachCase, flow: str
) -> None:
    def check(kind: str) -> None:
        run = client.submit(flow, kind)
        try:
            driver.play()
        except (Exception, SystemExit) as error:  # Its text would fail pytest.
            raise AssertionError(f"the round raised {type(error).__name__}") from None
        done = client.get(run.id)
        assert done.phase in ("errored", "completed", "interrupted", "waiting"), done.phase
        assert done.details["losses"] == 0
        assert client.why(run.id).sentence

    each_case(cases_of(KINDS), check)


def test_the_class_of_an_exception_without_a_text_is_named(client: Client, driver: Driver) -> None:
    run = client.submit("odd_ring", "NoText")
    driver.play()
    error = client.get(run.id).error
    assert error is not None and "NoText: its message cannot be made (Broken)" in error


def test_a_round_settles_though_its_log_lines_cannot_be_written(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Raises(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise Broken("no place for the line")

    monkeypatch.setattr(logging.getLogger("perdure.rounds"), "handlers", [Raises()])
    run = client.submit("odd_ring", "Caused")
    driver.play()
    assert (client.get(run.id).phase, client.get(run.id).details["losses"]) == ("errored", 0)


@pytest.mark.parametrize("kind", ["NoAttributes", "OddSyntax"])
def test_the_error_line_of_a_run_is_logged_though_its_exception_cannot_be_formatted(
    client: Client, driver: Driver, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    client.submit("odd_ring", kind)
    driver.play()
    [line] = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert kind in line.getMessage() and line.exc_info is None
