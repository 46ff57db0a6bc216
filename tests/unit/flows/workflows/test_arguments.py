"""A journal notices that its entries were mixed up: their arguments belong to other entries."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from threading import Thread
from types import FunctionType
from typing import Any
from uuid import UUID

import pytest

from perdure import (
    Advance,
    AsyncSteps,
    Command,
    Diverged,
    FatalError,
    History,
    InvalidFlow,
    RoundContext,
    Step,
    Steps,
    Turn,
    make,
    workflow,
)
from perdure.flows.core.outcomes import Outcome
from perdure.flows.rounds import registry
from perdure.flows.workflows.arguments import INCOMPARABLE, digest_of, digest_of_call, is_older
from tests.support.flow_registry import own_registry
from tests.support.tried_workflows import context_after, play_round

#: The finished steps of a test.
DONE: list[Any] = []


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch)
    DONE.clear()


def did(item: Any) -> str:
    DONE.append(item)
    return f"did {item}"


def play(function: Callable[..., Any], turns: Sequence[Turn] = (), **settings: Any) -> Outcome:
    """Play one round of a workflow with this function, in a process that has not seen it before."""
    outcome: Outcome = play_round(function, context_after(turns), **settings)
    return outcome


def turns_of(function: Callable[..., Any], rounds: int = 20) -> list[Turn]:
    """Play a workflow of this function; return its journal."""
    turns: list[Turn] = []
    for _ in range(rounds):
        outcome = play(function, turns)
        turns += outcome.turns  # type: ignore[union-attr]
        if not isinstance(outcome, Advance):
            break
    return turns


def in_order(items: Sequence[Any]) -> Callable[..., Any]:
    def loops(steps: Steps) -> list[str]:
        return [steps.step(did, item) for item in items]

    return loops


def at_once(items: Sequence[Any]) -> Callable[..., Any]:
    def gathers(steps: Steps) -> list[str]:
        return steps.gather(Step(did, item) for item in items)

    return gathers


def awaited(items: Sequence[Any]) -> Callable[..., Any]:
    async def loops(steps: AsyncSteps) -> list[str]:
        return [await steps.step(did, item) for item in items]

    return loops


def awaited_at_once(items: Sequence[Any]) -> Callable[..., Any]:
    async def gathers(steps: AsyncSteps) -> list[str]:
        return list(await asyncio.gather(*(steps.step(did, item) for item in items)))

    return gathers


SHAPES = [in_order, at_once, awaited, awaited_at_once]


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_in_another_order_are_not_given_each_others_results(
    shape: Callable[..., Any],
) -> None:
    journal = turns_of(shape(["a", "b", "c"]))
    DONE.clear()
    with pytest.raises(Diverged, match="with the arguments of another did"):
        play(shape(["b", "a", "c"]), journal)
    assert not DONE


@pytest.mark.parametrize("shape", SHAPES)
def test_a_new_step_is_not_carried_out_with_the_arguments_of_one_that_is_done(
    shape: Callable[..., Any],
) -> None:
    journal = turns_of(in_order(["a"]))
    DONE.clear()
    with pytest.raises(Diverged, match=r"did\.2 with the arguments with which did was done"):
        play(shape(["b", "a"]), journal)
    assert not DONE


@pytest.mark.parametrize("shape", SHAPES)
def test_arguments_that_merely_changed_keep_the_result_and_are_told(
    shape: Callable[..., Any],
) -> None:
    journal = turns_of(in_order(["a"]))
    outcome = play(shape(["changed", "b"]), journal)
    assert outcome.summary["arguments"] == ["did"] and DONE[-1] == "b"


@pytest.mark.parametrize("shape", [in_order, awaited])
def test_a_strict_workflow_keeps_no_result_of_other_arguments(shape: Callable[..., Any]) -> None:
    journal = turns_of(in_order(["a"]))
    with pytest.raises(Diverged, match="did with other arguments"):
        play(shape(["changed", "b"]), journal, arguments="strict")


def test_a_step_that_is_not_compared_may_have_other_arguments() -> None:
    def loops(steps: Steps) -> None:
        for item in items:
            steps.step(did, item, compare=False)

    items = ["a", "b"]
    journal = turns_of(loops)
    items.reverse()
    assert play(loops, journal).summary.get("arguments") is None


def test_the_same_arguments_twice_are_no_divergence() -> None:
    journal = turns_of(in_order(["a", "a", "b"]))
    assert play(in_order(["a", "a", "b"]), journal).answer == ["did a", "did a", "did b"]  # type: ignore[union-attr]


def test_entries_of_an_older_release_are_not_compared() -> None:
    journal = [
        Turn(turn.command, {"result": turn.observation["result"]})
        for turn in turns_of(in_order(["a", "b"]))
    ]
    assert play(in_order(["b", "a"]), journal).answer == ["did a", "did b"]  # type: ignore[union-attr]


def test_a_coroutine_that_catches_everything_has_diverged_all_the_same() -> None:
    journal = turns_of(in_order(["a", "b"]))

    async def catches(steps: AsyncSteps) -> list[str]:
        found = []
        for item in ("b", "a"):
            try:
                found.append(await steps.step(did, item))
            except Exception:
                found.append("nothing")
        return found

    with pytest.raises(Diverged, match="did with the arguments of another did"):
        play(catches, journal)


def test_another_setting_than_strict_is_refused() -> None:
    with pytest.raises(InvalidFlow, match="arguments is 'srtict'; expected 'compare' or 'strict'"):
        play(in_order([]), arguments="srtict")


# Digests


@dataclass
class Order:
    item: str
    tags: set[str]


def test_a_digest_is_the_same_for_equal_values_in_any_order() -> None:
    assert digest_of({"a": 1, "b": {2, 3}}) == digest_of({"b": {3, 2}, "a": 1})
    assert digest_of([Order("a", {"x", "y"})]) == digest_of([Order("a", {"y", "x"})])


def test_digests_of_other_values_differ() -> None:
    values: list[Any] = [
        [1], ["1"], [b"1"], [{1}], [{"1": 1}], [Order("a", set())], [Order("b", set())],
        [date(2026, 1, 1)], [UUID(int=1)], [None], [], [[]], [1.5], [True],
    ]  # fmt: skip
    assert len({digest_of(value) for value in values}) == len(values)


def test_a_value_that_has_no_form_of_its_own_is_not_compared() -> None:
    assert digest_of([object()]) == INCOMPARABLE


def bound_to(item: Any) -> Callable[[], Any]:
    return lambda: item


@pytest.mark.parametrize(
    "made",
    [
        lambda item: (functools.partial(did, item), ()),
        lambda item: (functools.partial(did, item=item), ()),
        lambda item: (bound_to(item), ()),
        lambda item: (lambda item=item: item, ()),
        lambda item: (Order(item, set()).__eq__, ()),
        lambda item: (did, (item,)),
    ],
    ids=["partial", "keyword", "closure", "default", "method", "argument"],
)
def test_what_a_function_brings_with_it_belongs_to_its_arguments(made: Any) -> None:
    one, same, other = (digest_of_call(*made(item)) for item in ("a", "a", "b"))
    assert one == same != other


@dataclass
class Pricer:
    shop: str

    def __call__(self) -> str:
        return self.shop


class Shop:
    """An object without a form of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def price(self) -> str:
        return self.name


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def price_of(client: Any, shop: Any) -> str:
    raise AssertionError


def like(function: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Return a copy of a function, as if another module had defined it."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__)
    copy.__module__ = module
    return copy


@pytest.mark.parametrize(
    "made",
    [
        lambda item: (Pricer(item), ()),
        lambda item: (price_of, (None, [object(), {"shop": Pricer(item)}])),
        lambda item: (price_of, (object(), item)),
        lambda item: (functools.partial(price_of, object(), shop=item), ()),
        lambda item: (wrapped(Pricer(item).__call__), ()),
        lambda item: (wrapped(functools.partial(price_of, object(), item)), ()),
        lambda item: (like(did, f"module_{item}"), ("x",)),
        lambda item: ({"a": Pricer, "b": Shop}[item], ("x",)),
        lambda item: (price_of, (None, lambda: item)),
    ],
    ids=[
        "callable", "in a list", "beside an object", "partial with an object",
        "decorated method", "decorated partial", "module", "class", "function as an argument",
    ],
)  # fmt: skip
def test_whatever_can_be_compared_of_a_call_is_compared(made: Any) -> None:
    one, same, other = (digest_of_call(*made(item)) for item in ("a", "a", "b"))
    assert one == same != other and not is_older(one)


def test_the_fields_of_a_service_are_not_compared() -> None:
    """They may change with each call: a counter, a session, a token."""
    one, other = Shop("a"), Shop("b")
    assert digest_of_call(one.price, ()) == digest_of_call(other.price, ())
    assert digest_of_call(price_of, (one, "x")) == digest_of_call(price_of, (other, "x"))
    assert digest_of_call(one.price, ()) != digest_of_call(Pricer("a").__call__, ())


def test_to_compare_an_iterator_does_not_use_it_up() -> None:
    numbers = (number for number in range(2))
    digest_of_call(did, (numbers,))
    assert list(numbers) == [0, 1]


def test_functions_that_hold_each_other_are_compared() -> None:
    def make(item: str) -> Callable[[], Any]:
        def odd() -> Any:
            return even, item

        def even() -> Any:
            return odd

        return even

    assert digest_of_call(make("a"), ()) == digest_of_call(make("a"), ())
    assert digest_of_call(make("a"), ()) != digest_of_call(make("b"), ())


def test_the_arguments_are_compared_whatever_people_see() -> None:
    def loops(steps: Steps) -> None:
        for item in items:
            steps.step(did, item, shown={"item": "hidden"})

    items = ["a", "b"]
    journal = turns_of(loops)
    items.reverse()
    with pytest.raises(Diverged, match="with the arguments of another did"):
        play(loops, journal)


@pytest.mark.parametrize("shown", [None, {"item": "?"}])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_entries_with_digests_of_the_older_form_are_compared_in_the_older_way(
    order: str, shown: dict[str, str] | None
) -> None:
    def loops(steps: Steps) -> Any:
        return [steps.step(did, item, shown=shown) for item in order] + [steps.step(did, "c")]

    of = [digest_of(shown if shown else [item]) for item in "ab"]
    journal = [
        Turn(Command(key, {}), {"of": each, "result": key})
        for key, each in zip(["did", "did.2"], of, strict=True)
    ]
    if order == "ba" and not shown:
        with pytest.raises(Diverged, match="with the arguments of another did"):
            play(loops, journal)
        return
    outcome = play(loops, journal)
    assert outcome.summary.get("arguments") is None and DONE == ["c"]


# Chance


@pytest.mark.parametrize("way", ["wait", "as_completed", "set of tasks", "task group"])
def test_tasks_are_taken_from_sets_in_the_same_order_each_time(way: str) -> None:
    async def one(steps: AsyncSteps, item: int) -> str:
        first = await steps.step(did, item, name="first")
        return str(await steps.step(did, f"{first}!", name="second"))

    async def many(steps: AsyncSteps) -> list[str]:
        padding = [bytearray(place * 997) for place in range(len(addresses))]  # other addresses
        works = [one(steps, item) for item in range(6)]
        if way == "as_completed":
            found = [await each for each in asyncio.as_completed(works)]
        elif way == "task group":
            async with asyncio.TaskGroup() as group:
                tasks = {group.create_task(work) for work in works}
            found = [task.result() for task in tasks]
        else:
            tasks = {asyncio.ensure_future(work) for work in works}
            done = (await asyncio.wait(tasks))[0] if way == "wait" else tasks
            found = [await task for task in done]
        addresses.append(padding)
        return [str(await steps.step(did, each, name="last")) for each in found]

    addresses: list[Any] = []
    turns: list[Turn] = []
    while True:
        outcome = play(many, turns)
        turns += outcome.turns  # type: ignore[union-attr]
        if not isinstance(outcome, Advance):
            break
    assert sorted(outcome.answer) == [f"did did did {item}!" for item in range(6)]  # type: ignore[union-attr]
    assert len(DONE) == 18


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_step_that_a_thread_asks_for_is_refused_by_name(is_plain: bool) -> None:
    errors: list[Exception] = []

    def ask(steps: Any) -> None:
        try:
            steps.step(did, "a", name="charge")
        except Exception as error:
            errors.append(error)

    def plain(steps: Steps) -> None:
        thread = Thread(target=ask, args=(steps,))
        thread.start()
        thread.join()
        raise errors[0]

    async def live(steps: AsyncSteps) -> None:
        plain(steps)  # type: ignore[arg-type]

    with pytest.raises(FatalError, match="'charge' is asked of the workflow's steps in another"):
        play(plain if is_plain else live)
    assert not DONE


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_step_that_was_cancelled_before_it_began_is_not_carried_out(has_begun: bool) -> None:
    async def cancels(steps: AsyncSteps) -> str:
        task = asyncio.ensure_future(steps.step(did, "cancelled", name="cancelled"))
        if has_begun:
            await asyncio.sleep(0)
        task.cancel()
        return str(await steps.step(did, "after"))

    assert len(turns_of(cancels)) == 1 and DONE == ["after"]


def test_chance_is_another_one_after_a_restart() -> None:
    def draw(steps: Steps) -> list[str]:
        return [str(steps.uuid()), str(steps.random()), str(steps.uuid())]

    drawn = []
    for gone in (0, 0, 1, 4):
        registry._definitions.pop("tried", None)
        workflow("tried")(draw)
        history = History(gone, [], lambda start, stop: [], gone)
        drawn.append(make("tried").play("Executor", RoundContext("x", history=history)).answer)  # type: ignore[union-attr]
    assert drawn[0] == drawn[1] and len({each for some in drawn for each in some}) == 9


def test_a_generation_that_an_older_release_began_keeps_its_chance() -> None:
    def draw(steps: Steps) -> str:
        steps.step(did, "a")
        return str(steps.uuid())

    registry._definitions.pop("tried", None)
    workflow("tried")(draw)
    answers = []
    for of in ({}, {"of": "-"}):
        [turn] = turns_of(draw, 1)
        old = Turn(turn.command, {"result": "did a", **of})
        for gone in (0, 1):
            history = History(gone + 1, [old], lambda start, stop: [], gone)
            outcome = make("tried").play("Executor", RoundContext("x", history=history))
            answers.append(outcome.answer)  # type: ignore[union-attr]
    assert answers[0] == answers[1] == answers[2] != answers[3]
