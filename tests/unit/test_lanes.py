"""Lanes: so many threads at once, nothing that hangs on one, and none kept by who waits for something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.servers import until
from worker import lanes
from worker.lanes import BRIEF_MS, Lanes

#: Longer than any test.
LONG = 60.0


@pytest.fixture(autouse=True)
def _nobody_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "OVERDUE_SECONDS", LONG)


@pytest.fixture
def threads() -> Iterator[list[Callable[..., Any]]]:
    """Each runs a call in a thread of its own, and gives what it returned; None where that does not come within a fifth of a second."""
    pools = [ThreadPoolExecutor(1) for _ in range(4)]

    def caller(pool: ThreadPoolExecutor) -> Callable[..., Any]:
        def call(act: Callable[..., Any], *args: Any) -> Any:
            future = pool.submit(act, *args)
            try:
                return future.result(0.2)
            except TimeoutError:
                return future

        return call

    yield [caller(pool) for pool in pools]
    for pool in pools:
        pool.shutdown(wait=True)


def test_who_finds_none_free_waits_until_one_is_left(threads: list[Callable[..., Any]]) -> None:
    made = Lanes(2)
    first, second, third, fourth = threads
    assert first(made.enter, LONG) < 0.1 and second(made.enter, LONG) < 0.1
    waiting = [third(made.enter, LONG), fourth(made.enter, LONG)]
    assert not any(future.done() for future in waiting)
    first(made.leave)
    until(lambda: sum(future.done() for future in waiting) == 1, "one of them is in the lane that was left")
    second(made.leave)
    assert all(future.result(LONG) > 0.1 for future in waiting)


def test_a_thread_that_has_a_lane_goes_on_in_it(threads: list[Callable[..., Any]]) -> None:
    made = Lanes(2)
    first, second, third, _ = threads
    first(made.enter, 0.0)
    assert first(made.enter, 0.0) == 0.0
    second(made.enter, 0.0)
    assert third(made.enter, 0.05) >= 0.05
    first(made.leave)
    assert third(made.enter, LONG) < 0.1


def test_nobody_waits_longer_than_they_have_patience_and_may_leave_all_the_same(threads: list[Callable[..., Any]]) -> None:
    made = Lanes(1)
    first, second, third, _ = threads
    first(made.enter, 0.0)
    assert 0.05 <= second(made.enter, 0.05) < LONG
    second(made.leave)  # frees nobody else's
    waiting = third(made.enter, LONG)
    assert 0.0 < second(made.enter, 0.05) < LONG, "nor where somebody else is next"
    first(made.leave)
    assert waiting.result(LONG) > 0.1


def test_who_is_overdue_with_a_round_loses_the_lane_and_who_goes_on_does_not(
    threads: list[Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "OVERDUE_SECONDS", 0.5)
    made, over = Lanes(2), threading.Event()

    def goes_on() -> None:
        while not over.wait(0.01):
            assert made.enter(LONG) == 0.0 or over.is_set()

    slow, quick, third, fourth = threads
    slow(made.enter, 0.0)
    assert quick(made.enter, 0.0) < LONG
    going = quick(goes_on)
    waiting = third(made.enter, LONG)
    assert waiting.result(LONG) <= 0.6, "the slow one's lane"
    assert fourth(made.enter, 0.1) >= 0.1
    slow(made.leave)  # what it has no longer
    assert fourth(made.enter, 0.1) >= 0.1
    over.set()
    going.result(LONG)


def test_a_node_is_as_brief_as_its_last_round() -> None:
    made = Lanes()
    assert not made.is_brief("flow", "node")
    made.took("flow", "node", BRIEF_MS)
    assert made.is_brief("flow", "node") and not made.is_brief("flow", "other") and not made.is_brief("other", "node")
    made.took("flow", "node", BRIEF_MS + 1)
    assert not made.is_brief("flow", "node")
