"""The CPU limiter: a number of threads at once, none of which others wait for in vain, and no slot
kept by a thread that waits for something else.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from perdure.worker.engine.fast import cpu_limiter
from perdure.worker.engine.fast.cpu_limiter import BRIEF_MS, CpuLimiter
from tests.support.redis_servers import until

#: Longer than any test.
LONG = 60.0


@pytest.fixture(autouse=True)
def _nobody_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_limiter, "OVERDUE_SECONDS", LONG)


@pytest.fixture
def threads() -> Iterator[list[ThreadPoolExecutor]]:
    """Four pools of one thread each."""
    pools = [ThreadPoolExecutor(1) for _ in range(4)]
    yield pools
    for pool in pools:
        pool.shutdown(wait=True)


def enters(thread: ThreadPoolExecutor, made: CpuLimiter, patience: float = LONG) -> Future[bool]:
    """Enter a slot with the thread; return whether it is in one then."""
    return thread.submit(lambda: (made.enter(patience), made.inside)[1])


def leaves(thread: ThreadPoolExecutor, made: CpuLimiter) -> None:
    thread.submit(made.leave).result(LONG)


def test_who_finds_none_free_waits_until_one_is_left(threads: list[ThreadPoolExecutor]) -> None:
    made = CpuLimiter(2)
    first, second, third, fourth = threads
    assert enters(first, made).result(LONG) and enters(second, made).result(LONG)
    waiting = [enters(third, made), enters(fourth, made)]
    assert wait(waiting, 0.2).done == set()
    leaves(first, made)
    until(
        lambda: sum(future.done() for future in waiting) == 1,
        "one of them is in the lane that was left",
    )
    assert wait(waiting, 0.2).not_done
    leaves(second, made)
    assert all(future.result(LONG) for future in waiting)


def test_a_thread_that_has_a_lane_goes_on_in_it(threads: list[ThreadPoolExecutor]) -> None:
    made = CpuLimiter(2)
    first, second, third, _ = threads
    assert enters(first, made).result(LONG) and enters(first, made).result(LONG)
    assert first.submit(made.enter).result(LONG) == 0.0
    assert enters(second, made).result(LONG)
    assert not enters(third, made, 0.05).result(LONG)
    leaves(first, made)
    assert enters(third, made).result(LONG)


def test_nobody_waits_longer_than_they_have_patience_and_may_leave_all_the_same(
    threads: list[ThreadPoolExecutor],
) -> None:
    made = CpuLimiter(1)
    first, second, third, _ = threads
    assert enters(first, made).result(LONG)
    assert not enters(second, made, 0.05).result(LONG)
    leaves(second, made)  # frees no other slot
    waiting = enters(third, made)
    assert wait([waiting], 0.2).not_done
    assert not enters(second, made, 0.05).result(LONG), "nor where somebody else is next"
    leaves(first, made)
    assert waiting.result(LONG)


def test_who_is_overdue_with_a_round_loses_the_lane_and_who_goes_on_does_not(
    threads: list[ThreadPoolExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_limiter, "OVERDUE_SECONDS", 2.0)
    made, over = CpuLimiter(2), threading.Event()

    def goes_on() -> bool:
        """Return whether the thread had its slot at the beginning of each of its rounds."""
        while made.inside and not over.wait(0.01):
            made.enter(LONG)
        return made.inside

    slow, quick, third, fourth = threads
    assert enters(slow, made).result(LONG) and enters(quick, made).result(LONG)
    going, waiting = quick.submit(goes_on), enters(third, made)
    assert waiting.result(LONG), "the slow one's lane"
    assert not enters(fourth, made, 0.05).result(LONG), "nobody else is overdue"
    assert not slow.submit(lambda: made.inside).result(LONG)
    leaves(slow, made)  # its slot is gone already
    assert third.submit(lambda: made.inside).result(LONG)
    over.set()
    assert going.result(LONG)


def test_a_node_is_as_brief_as_its_last_round() -> None:
    made = CpuLimiter()
    assert not made.is_brief("flow", "node")
    made.took("flow", "node", BRIEF_MS)
    assert (
        made.is_brief("flow", "node")
        and not made.is_brief("flow", "other")
        and not made.is_brief("other", "node")
    )
    made.took("flow", "node", BRIEF_MS + 1)
    assert not made.is_brief("flow", "node")
