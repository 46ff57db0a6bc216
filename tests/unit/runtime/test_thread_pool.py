"""Threads: work that is submitted from a thread of the pool runs in that thread, next; all other
work as in any pool.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from perdure.worker.runtime.fast.thread_pool import RoundThreadPool


@pytest.fixture
def threads() -> Iterator[RoundThreadPool]:
    with RoundThreadPool(4) as found:
        yield found


def test_what_work_hands_over_runs_in_its_own_thread_once_it_has_ended(
    threads: RoundThreadPool,
) -> None:
    seen: list[tuple[str, int]] = []
    followers: list[Future[Any]] = []

    def act(left: int) -> None:
        if left:
            followers.append(threads.submit(act, left - 1))
        seen.append((f"{left} ended", threading.get_ident()))

    threads.submit(act, 3).result(10)
    assert [follower.result(10) for follower in followers] == [None] * 3
    assert [what for what, _ in seen] == ["3 ended", "2 ended", "1 ended", "0 ended"]
    assert len({who for _, who in seen}) == 1


def test_a_thousand_in_a_row_are_no_stack_of_a_thousand(threads: RoundThreadPool) -> None:
    done: Future[str] = Future()

    def act(left: int) -> None:
        if left:
            threads.submit(act, left - 1)
        else:
            done.set_result("done")

    threads.submit(act, 5_000)
    assert done.result(30) == "done"


def test_work_from_elsewhere_runs_beside_it(threads: RoundThreadPool) -> None:
    """Two that wait for each other: neither could end in the other's thread."""
    barrier = threading.Barrier(2)
    both = [threads.submit(barrier.wait, 10) for _ in range(2)]
    assert sorted(one.result(10) for one in both) == [0, 1]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_what_one_raises_is_told_to_who_asks_or_in_the_log_and_ends_nothing_else(
    threads: RoundThreadPool, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    followers: list[Future[Any]] = []
    ran: list[int] = []

    def fails() -> None:
        raise error

    def act() -> None:
        followers.extend(
            [threads.submit(fails), threads.submit(lambda: ran.append(threading.get_ident()))]
        )
        fails()

    first = threads.submit(act)
    with pytest.raises(type(error)):
        first.result(10)
    assert [follower.result(10) for follower in followers] == [None] * 2 and len(ran) == 1
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]
    assert threads.submit(str, 7).result(10) == "7"


def test_what_follows_in_a_thread_cannot_be_cancelled_and_says_so(threads: RoundThreadPool) -> None:
    ran: list[str] = []

    def act() -> None:
        follower = threads.submit(ran.append, "follower")
        assert not follower.cancel() and not follower.done()

    threads.submit(act).result(10)
    threads.shutdown()
    assert ran == ["follower"]


def test_a_thread_that_has_nothing_left_says_so_once_whatever_became_of_its_work() -> None:
    idle: list[int] = []
    with RoundThreadPool(1, lambda: idle.append(threading.get_ident())) as threads:

        def act(left: int) -> int:
            if left:
                threads.submit(act, left - 1)
            assert idle == []
            return threading.get_ident()

        who = threads.submit(act, 3).result(10)
        assert threads.submit(lambda: list(idle)).result(10) == [who]
        with pytest.raises(ZeroDivisionError):
            threads.submit(lambda: 1 // 0).result(10)
    assert idle == [who] * 3
