"""The faults that a crash laboratory finds in a story by itself, and its report; no server is
needed to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from perdure import (
    Command,
    Controller,
    ControllerExecutorFlow,
    Event,
    ExecutionState,
    Finish,
    RoundContext,
    Run,
    RunStatus,
    command,
)
from perdure.testing import Call, Story, point
from perdure.worker.testing.checks import advice, fault_of_check, faults_of
from perdure.worker.testing.faults import PLACES, WHOLE, Boundary, faults_at
from perdure.worker.testing.process_state import ProcessMemory
from perdure.worker.testing.report import found
from perdure.worker.testing.story import Trace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN = ("submitted", "committed", "committed", "completed")


def story(
    status: RunStatus = RunStatus.COMPLETED,
    answer: Any = "paid",
    events: Sequence[str] = PLAIN,
    steps: Sequence[int] = (0, 1),
    calls: Sequence[Call] = (),
    attempt: int = 1,
    name: str = "undisturbed",
) -> Story:
    """Make a story of two rounds that went as always, except for the arguments."""
    numbers = iter(steps)
    at = [next(numbers, 1) if kind == "committed" else 1 for kind in events]
    made = [
        Event(str(i), kind, NOW, at[i], attempt if at[i] else 1, "Executor")
        for i, kind in enumerate(events)
    ]
    state = ExecutionState(current_node="Executor", step=2)
    run = Run("r", "shop", "g", {}, status, state, answer, {}, None, NOW, NOW)
    return Story(name, calls=list(calls), events=made, ended=run)


def call(attempt: int = 1, key: str = "r:1:k", worker: int = 1, **more: Any) -> Call:
    return Call(1, attempt, "Executor", worker, "charge", {"amount": 12}, key, **more)


def wrong(one: Story, **options: bool) -> list[tuple[str, bool]]:
    options = {"same_answer": True, "heeds_stop": False, **options}
    return [(each.text, each.ours) for each in faults_of(one, story(calls=[call()]), **options)]


def test_nothing_is_wrong_with_a_story_that_took_one_attempt_more() -> None:
    assert wrong(story()) == []
    assert wrong(story(calls=[call(), call(attempt=2)], attempt=2)) == []
    stopped = ("submitted", "committed", "stopped", "resumed", "committed", "completed")
    assert wrong(story(events=stopped)) == []


@pytest.mark.parametrize(
    "sentence", ["its state is not JSON; it is quarantined", "any other words"]
)
def test_a_quarantined_run_is_known_by_its_mark_and_not_by_the_words_of_its_error(
    sentence: str,
) -> None:
    one = story(status=RunStatus.ERRORED)
    damaged = replace(one.run, error=sentence, details={"quarantined": "1"})
    assert wrong(replace(one, ended=damaged))[0] == (
        f"what Perdure stored of the run is damaged: {sentence}",
        True,
    )
    assert all(not ours for _, ours in wrong(replace(one, ended=replace(one.run, error=sentence))))


@pytest.mark.parametrize(
    ("told", "text", "ours"),
    [
        (
            story(status=RunStatus.ERRORED),
            "the run ended errored, but undisturbed it ends completed",
            False,
        ),
        (story(answer="owed"), "the run's answer is 'owed', but undisturbed it is 'paid'", False),
        (
            story(steps=(0, 0)),
            "the steps committed are [0, 0], expected each of 0 to 1 once, in order",
            True,
        ),
        (
            story(steps=(1, 0)),
            "the steps committed are [1, 0], expected each of 0 to 1 once, in order",
            True,
        ),
        (
            story(events=("committed",)),
            "the steps committed are [0], expected each of 0 to 1 once, in order",
            True,
        ),
        (
            story(events=("committed", "stopped", "committed")),
            "the event committed followed although the run was stopped",
            True,
        ),
        (
            story(attempt=3),
            "step 1 took 3 attempts; undisturbed it takes 1, and one fault may cost one more",
            True,
        ),
        (
            story(calls=[call(), call()]),
            "charge was called 2 times in attempt 1 of step 1 by worker 1",
            True,
        ),
        (
            story(calls=[call(), call(attempt=2, key="r:1:z")]),
            "step 1: charge(amount=12) got different idempotency keys: r:1:k, r:1:z",
            True,
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_each_thing_that_must_hold_is_missed_where_it_does_not(
    told: Story, text: str, ours: bool
) -> None:
    assert wrong(told) == [(text, ours)]


def test_the_answer_may_differ_and_a_stop_may_be_ignored_where_that_is_said() -> None:
    assert wrong(story(answer="owed"), same_answer=False) == []
    went_on = story()
    went_on.went_on = ["b"]
    assert wrong(went_on) == []
    assert wrong(went_on, heeds_stop=True) == [
        ("a command continued after the run was stopped (mode now): it passed 'b'", False)
    ]


def test_a_check_asserts_or_returns_false_or_a_text() -> None:
    def asserts(one: Story) -> None:
        raise AssertionError("two charges")

    def breaks(one: Story) -> None:
        raise KeyError("charges")

    told = [
        fault_of_check(story(), check)
        for check in (asserts, breaks, lambda one: False, lambda one: "two charges")
    ]
    assert [each.text.partition(" (")[0] for each in told if each] == [
        "the check failed: two charges",
        "the check raised KeyError: 'charges'",
        "the check returned False",
        "the check failed: two charges",
    ]
    assert [
        fault_of_check(story(), check)
        for check in (None, lambda one: True, lambda one: None, lambda one: "")
    ] == [None] * 4


def test_the_advice_fits_what_was_seen() -> None:
    fault = fault_of_check(story(), lambda one: False)
    assert fault is not None

    def said(*calls: Call) -> str:
        return advice(story(calls=calls), fault)

    assert "never read context.idempotency_key" in said(call(), call(2))
    assert "It did read context.idempotency_key" in said(
        call(key_read=True), call(2, key_read=True)
    )
    assert "whose lease had expired" in said(call(2, worker=2), call(1, worker=1))
    assert "No command was called twice" in said(call())
    ours = next(faults_of(story(steps=(0, 0)), story(), True, False))
    assert "This is a bug in Perdure" in advice(story(), ours)


def test_the_shortest_story_is_told_and_the_others_are_named() -> None:
    fault = fault_of_check(story(), lambda one: False)
    assert fault is not None
    long, short, middle = story(name="long"), story(name="short"), story(name="middle")
    for each, lines in ((long, 9), (short, 2), (middle, 5)):
        for line in range(lines):
            each.trace.tell(f"line {line}")
    error = found("shop", [(long, fault), (short, fault), (middle, fault)], 7)
    assert (error.story, error.others) == (short, ("long", "middle"))
    assert str(error).startswith("3 of 7 stories of flow 'shop' went wrong. The shortest, 'short':")
    assert "Wrong as well: long; middle" in str(error)


def test_a_trace_leaves_out_what_went_as_always_and_counts_what_repeats() -> None:
    trace = Trace(disturbed=5)
    for step in range(6):
        trace.tell("is done", step, "Draft")
    trace.tell("the message was lost")
    trace.tell("the message was lost")
    trace.tell("is done", 5, "Draft", 2)
    assert str(trace).splitlines() == [
        "steps 0 to 2 as always",
        "step 3  Draft  is done",
        "step 4  Draft  is done",
        "step 5  Draft  is done",
        "        the message was lost (2 times)",
        "step 5  Draft  attempt 2: is done",
    ]


def test_there_is_a_fault_of_each_kind_at_each_place_it_can_strike() -> None:
    places = (
        "received", "loaded", "point", "played", "committing", "committed", "asked", "parked",
    )  # fmt: skip
    boundaries = [Boundary(0, 1, "Executor", place, "x") for place in places]
    faults = list(faults_at(boundaries))
    assert {(fault.kind, fault.boundary.place) for fault in faults if fault.boundary} == {
        (kind, place) for kind, struck in PLACES.items() for place in struck
    }
    assert all(
        fault.boundary is boundaries[fault.index]
        for fault in faults
        if fault.boundary and fault.index is not None
    )
    assert (
        len({str(fault) for fault in faults}) == len(faults) == 2 + sum(map(len, PLACES.values()))
    )
    assert str(faults[0]) == "each round on another worker"
    whole = [str(fault) for fault in faults_at(boundaries, has_signals=True) if not fault.boundary]
    assert whole == list(WHOLE.values())
    assert 'step 0: crash at point "x"' in map(str, faults)
    assert Boundary(3, 2, "", "loaded").round == "step 3, attempt 2"


class Turns(Controller):
    turns = 0

    def decide(self, context: RoundContext) -> Finish:
        return Finish()


class Keeper(ControllerExecutorFlow):
    words: ClassVar[list[str]] = ["a"]
    table: ClassVar[dict[str, set[int]]] = {"x": {1}}
    count = 0
    world: ClassVar[object] = object()
    controller: ClassVar[Controller] = Turns()

    @command
    def act(self) -> None: ...

    def decide(self, context: RoundContext) -> Command:
        return Command("act")


def test_a_process_that_dies_takes_along_what_the_flow_kept_in_it() -> None:
    memory, world, words = ProcessMemory(Keeper()), Keeper.world, Keeper.words
    assert memory.changes() == []
    words.append("b")
    Keeper.table["x"].add(2)
    Keeper.count += 1
    Keeper.late = 3  # type: ignore[attr-defined]
    Keeper.controller.turns += 1  # type: ignore[attr-defined]
    mine = memory.capture()
    assert memory.changes() == [
        "Keeper.words = ['a', 'b']", "Keeper.table = {'x': {1, 2}}", "Keeper.count = 1", "Keeper.late = 3", "Turns.turns = 1",
    ]  # fmt: skip
    memory.restore()
    assert (Keeper.words, Keeper.table, Keeper.count, memory.changes()) == (
        ["a"],
        {"x": {1}},
        0,
        [],
    )
    assert not hasattr(Keeper, "late") and vars(Keeper.controller).get("turns", 0) == 0
    assert Keeper.words is words and Keeper.world is world
    memory.restore(mine)  # the process that stood still wakes
    assert (Keeper.words, Keeper.count) == (["a", "b"], 1)
    memory.restore()


def test_a_point_outside_of_a_lab_does_nothing() -> None:
    point("charged")
