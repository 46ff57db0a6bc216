"""While a round's end unwinds the function of a workflow, the function can request nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from perdure import (
    Advance,
    AsyncSteps,
    End,
    FatalError,
    History,
    RoundContext,
    RoundStopped,
    Step,
    Steps,
    Turn,
    make,
    workflow,
)
from perdure.flows.core.process_cache import Kept
from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds import registry
from perdure.flows.rounds.waits import Parked
from tests.support.flow_registry import own_registry

#: The finished steps of a test.
DONE: list[str] = []


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch)
    DONE.clear()


class KeptHere(Kept):
    """An object kept between two rounds."""

    value: Any = None

    def take(self) -> Any:
        taken, self.value = self.value, None
        return taken

    def keep(self, value: Any) -> None:
        self.value = value


def did(what: str) -> str:
    DONE.append(what)
    return what


def context(turns: Sequence[Turn] = (), **fields: Any) -> RoundContext:
    history = History(len(turns), turns, lambda start, stop: [])
    return RoundContext("the goal", history=history, **{"journal": Journal(), **fields})


def play(function: Callable[..., Any], context: RoundContext) -> Any:
    """Play one round of a workflow with this function."""
    registry._definitions.pop("tried", None)
    workflow("tried")(function)
    return make("tried").play("Executor", context)


#: Calls of a plain function that end its round with ``Parked``.
WAITS: dict[str, Callable[[Steps], Any]] = {
    "sleep": lambda steps: steps.sleep("1h"),
    "wait_for": lambda steps: steps.wait_for("go"),
    "child": lambda steps: steps.child("leaf"),
    "map": lambda steps: steps.map("leaf", ["a", "b"]),
}

#: Calls that a function can make in a ``finally``, besides those that wait.
CALLS: dict[str, Callable[[Any], Any]] = {
    "step": lambda steps: steps.step(did, "clean"),
    "now": lambda steps: steps.now(),
    "random": lambda steps: steps.random(),
    "uuid": lambda steps: steps.uuid(),
    "patched": lambda steps: steps.patched("clean"),
    "listen": lambda steps: steps.listen("order:1"),
    "restart": lambda steps: steps.restart(),
}


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("call", [*CALLS, "gather"])
def test_a_wait_carries_nothing_out_in_a_finally(wait: str, call: str) -> None:
    reached: list[str] = []

    def waits(steps: Steps) -> None:
        try:
            WAITS[wait](steps)
        finally:
            reached.append("finally")
            if call == "gather":
                steps.gather([Step(did, "one"), Step(did, "two")])
            else:
                CALLS[call](steps)
            reached.append("went on")

    journal = Journal()
    with pytest.raises(Parked):
        play(waits, context(journal=journal))
    assert (DONE, reached, journal.recorded) == ([], ["finally"], {})


@pytest.mark.parametrize("end", [RoundStopped("lost"), SystemExit(3), KeyboardInterrupt()])
def test_the_exception_that_ends_a_round_is_raised_and_nothing_follows(end: BaseException) -> None:
    def stops() -> None:
        raise end

    def works(steps: Steps) -> None:
        try:
            steps.step(stops)
        finally:
            steps.step(did, "clean")

    with pytest.raises(type(end)) as raised:
        play(works, context())
    assert raised.value is end and not DONE


def test_a_function_that_catches_its_wait_has_caught_the_end_of_its_round() -> None:
    def catches(steps: Steps) -> str:
        try:
            steps.sleep("1h")
        except BaseException:
            return "caught"
        return "slept"

    with pytest.raises(FatalError, match="caught the end of its round"):
        play(catches, context())


@pytest.mark.parametrize("call", CALLS)
def test_a_call_in_a_finally_leaves_nothing_behind_before_the_function_ends(call: str) -> None:
    def plain(steps: Steps) -> None:
        try:
            steps.step(did, "a")
            steps.step(did, "b")
        finally:
            CALLS[call](steps)

    kept, journal = KeptHere(), Journal()
    outcome = play(plain, context(kept=kept, journal=journal))
    assert isinstance(outcome, Advance) and DONE == ["a"]
    names = [turn.command.name for turn in outcome.turns if turn.command]
    assert names == [entry.key for entry in kept.value] == ["did"]
    assert not journal.recorded


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_a_coroutine_that_is_cancelled_requests_nothing(call: str, is_kept: bool) -> None:
    async def waits(steps: AsyncSteps) -> None:
        try:
            await (steps.step(did, "a") if is_kept else steps.sleep("1h"))
            await steps.step(did, "b")
        finally:
            CALLS[call](steps)

    kept, journal = KeptHere(), Journal()
    if is_kept:
        play(waits, context(kept=kept, journal=journal))
        assert kept.value.close(), "the coroutine ended"
    else:
        with pytest.raises(Parked):
            play(waits, context(journal=journal))
    assert (DONE, journal.recorded) == (["a"] if is_kept else [], {})


def test_the_other_tasks_of_a_coroutine_are_cancelled_with_it() -> None:
    ended: list[str] = []

    async def waits(steps: AsyncSteps, name: str) -> None:
        try:
            await steps.sleep("1h", name=name)
        finally:
            ended.append(name)
            steps.now()

    async def both(steps: AsyncSteps) -> None:
        tasks = [asyncio.create_task(waits(steps, name)) for name in ("one", "two")]
        await asyncio.wait(tasks)

    journal = Journal()
    with pytest.raises(Parked):
        play(both, context(journal=journal))
    assert ended == ["one", "two"] and not journal.recorded


def test_the_time_in_a_finally_is_that_of_the_end_whenever_the_function_is_run_again() -> None:
    told: list[str] = []

    def times(steps: Steps) -> None:
        try:
            steps.step(did, "a")
            steps.step(did, "b")
        finally:
            told.append(steps.now().isoformat())
        steps.step(did, "c")
        steps.step(did, "d")

    turns: list[Turn] = []
    while isinstance(outcome := play(times, context(turns)), Advance):
        turns += outcome.turns
    assert isinstance(outcome, End) and len(told) == 3 and len(set(told)) == 1
