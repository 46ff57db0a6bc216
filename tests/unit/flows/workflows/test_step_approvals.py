"""Approvals of steps: bound to the whole call, and shown as a whole or not at all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import Command, Interrupt, RoundContext, StepFailed, Steps, make, workflow
from perdure.flows.commands.approval import digest_of
from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds import registry
from tests.support.flow_registry import own_registry

#: The payments of a test.
PAID: list[Any] = []


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch)
    PAID.clear()


@dataclass
class Order:
    number: int


@dataclass
class Till:
    name: str

    def pay(self, amount: int) -> None:
        PAID.append((self.name, amount))


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    def pay(self, amount: int) -> None:
        PAID.append((self.name, amount))


def pay(amount: Any, to: str = "Ada", *more: int, **rest: int) -> None:
    PAID.append(amount)


def play(function: Callable[..., Any], *args: Any, options: Any = None, **facts: Any) -> Any:
    """Play a round of a workflow with one step that needs an approval."""

    def one(steps: Steps) -> Any:
        try:
            return steps.step(function, *args, name="pay", **(options or {"approval": "always"}))
        except StepFailed as error:
            return error.reason

    registry._definitions.pop("tried", None)
    workflow("tried")(one)
    return make("tried").play("Executor", RoundContext("the goal", **facts))


def asked(function: Callable[..., Any], *args: Any, **options: Any) -> dict[str, Any]:
    outcome = play(function, *args, options={"approval": "always", **options})
    assert isinstance(outcome, Interrupt), outcome
    about: dict[str, Any] = outcome.data["approval"]
    return about


def approve(about: Any, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Play the round behind the approval ``about``."""
    facts = {"answer": "approve", "answered": True, "asked": {"approval": about}}
    return play(function, *args, options={"approval": "always", **options}, **facts)


CALLS: dict[str, Any] = {
    "plain": lambda amount: (pay, amount),
    "partial": lambda amount: (functools.partial(pay, amount=amount),),
    "long": lambda amount: (pay, "x" * 20_000 + str(amount)),
    "shown": lambda amount: (functools.partial(pay, amount), "Bob"),
    "data": lambda amount: (pay, [Order(amount), b"1", {2, 1}]),
    "inner function": lambda amount: (lambda: pay(amount),),
    "method": lambda amount: (Shop("a").pay, amount),
    "owner": lambda amount: (Till(str(amount)).pay, 1),
}


@pytest.mark.parametrize("kind", CALLS)
def test_an_approval_counts_for_this_very_call_alone(kind: str) -> None:
    options: Any = {"shown": {"what": "a payment"}} if kind == "shown" else {}
    call = CALLS[kind]
    about = asked(*call(1), **options)
    again = approve(about, *call(2), **options)
    assert isinstance(again, Interrupt) and not PAID
    assert "the last answer was about other arguments" in again.reason
    approve(about, *call(1), **options)
    assert len(PAID) == 1


def test_a_person_sees_all_arguments_of_the_call() -> None:
    call = functools.partial(functools.partial(pay, Order(5)), "Bob", cents=3)
    assert asked(call, 1, 2)["args"] == {
        "amount": {"number": 5}, "to": "Bob", "more": [1, 2], "cents": 3,
    }  # fmt: skip
    assert asked(pay, "x" * 20_000)["args"] == {"amount": "x" * 20_000, "to": "Ada", "more": []}


@pytest.mark.parametrize("argument", [object(), Shop("a"), "x" * 100_000, lambda: 1])
def test_a_call_that_a_person_could_not_see_whole_is_not_asked_about(argument: Any) -> None:
    failed = play(pay, argument)
    assert "step pay needs an approval, and its argument 'amount'" in failed.answer, failed
    assert "shown={...}" in failed.answer and not PAID
    about = asked(pay, argument, shown={"amount": "as agreed"})
    assert about["args"] == {"amount": "as agreed"}


def test_the_rule_gets_the_arguments_by_name() -> None:
    seen: list[Any] = []

    def rule(args: Any) -> bool:
        seen.append(dict(args))
        return bool(args["amount"].number > 3)

    play(functools.partial(pay, to="Bob"), Order(3), options={"approval": rule})
    assert [Order(3)] == PAID
    assert isinstance(play(pay, Order(4), options={"approval": rule}), Interrupt)
    assert seen == [
        {"amount": Order(3), "to": "Bob", "more": ()}, {"amount": Order(4), "to": "Ada", "more": ()},
    ]  # fmt: skip


def test_a_reconciling_function_gets_the_arguments_for_which_it_has_parameters() -> None:
    def look(context: RoundContext, amount: int, to: str) -> str:
        return f"{amount} to {to}, {context.command and context.command.name}"

    intent = RoundContext("g").key_of(Command("pay"))
    for policy, found in ((look, "5 to Ada, pay"), (lambda context: "found", "found")):
        outcome = play(
            functools.partial(pay, 5), options={"in_doubt": policy}, journal=Journal(intent)
        )
        assert outcome.answer == found and not PAID


def test_an_approval_of_an_earlier_release_counts_for_the_arguments_that_were_shown() -> None:
    about = {"command": "pay", "digest": digest_of("pay", {}), "args": {"amount": 5}}
    assert isinstance(approve(about, pay, 6), Interrupt)
    approve(about, pay, 5)
    assert PAID == [5]
