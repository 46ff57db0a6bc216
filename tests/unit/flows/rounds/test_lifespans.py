"""Lifespans: opened once a process, when a round needs it; closed once, by the opening task."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager

import pytest

from perdure import (
    ControllerExecutorFlow,
    FatalError,
    InvalidFlow,
    Lifespan,
    LifespanFailed,
    RoundContext,
    lifespan,
)
from perdure.flows.core.event_loop import run
from perdure.flows.rounds.lifespans import close_lifespans


class Log(list[str]):
    """The events, in order."""


@pytest.fixture
def log() -> Iterator[Log]:
    yield Log()
    close_lifespans()


def kinds(log: Log) -> dict[str, Lifespan[str]]:
    @lifespan
    def plain() -> Iterator[str]:
        log.append("opened")
        yield "deps"
        log.append("closed")

    @lifespan
    @contextmanager
    def managed() -> Iterator[str]:
        log.append("opened")
        yield "deps"
        log.append("closed")

    @lifespan
    async def awaited() -> AsyncIterator[str]:
        task = asyncio.current_task()
        await asyncio.sleep(0)
        log.append("opened")
        yield "deps"
        await asyncio.sleep(0)
        assert asyncio.current_task() is task
        log.append("closed")

    @lifespan
    @asynccontextmanager
    async def managed_awaited() -> AsyncIterator[str]:
        async with asyncio.timeout(30):  # It must be left by the task that entered it.
            log.append("opened")
            yield "deps"
        log.append("closed")

    return {each.name: each for each in (plain, managed, awaited, managed_awaited)}


KINDS = sorted(kinds(Log()))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_opened_once_closed_once_and_may_be_opened_again(kind: str, log: Log) -> None:
    deps = kinds(log)[kind]
    assert log == []
    assert deps.open() == deps.open() == "deps" and log == ["opened"]
    close_lifespans()
    close_lifespans()
    assert log == ["opened", "closed"]
    assert deps.open() == "deps" and log == ["opened", "closed", "opened"]


@pytest.mark.parametrize("kind", KINDS)
def test_many_threads_open_one(kind: str, log: Log) -> None:
    deps, ready = kinds(log)[kind], threading.Barrier(8)

    def open_it() -> str:
        ready.wait(10)
        return deps.open()

    with ThreadPoolExecutor(8) as pool:
        assert {future.result(20) for future in [pool.submit(open_it) for _ in range(8)]} == {
            "deps"
        }
    assert log == ["opened"]


def test_the_newest_is_closed_first_and_an_error_stops_no_other(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    @lifespan
    def first() -> Iterator[None]:
        yield None
        log.append("first")

    @lifespan
    def second() -> Iterator[None]:
        yield None
        raise OSError("it was closed by the server")

    @lifespan
    async def third() -> AsyncIterator[None]:
        yield None
        log.append("third")

    for each in (first, second, third):
        each.open()
    with caplog.at_level(logging.ERROR, "perdure.flow"):
        close_lifespans()
    assert log == ["third", "first"]
    assert "'second' could not be closed" in caplog.text and "closed by the server" in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_while_opening_is_told_with_its_cause_and_the_next_call_tries_again(
    is_async: bool, log: Log
) -> None:
    down = [True]

    def connect() -> str:
        if down:
            down.pop()
            raise ConnectionError("no bank at port 1")
        return "bank"

    @lifespan
    def bank() -> Iterator[str]:
        yield connect()

    @lifespan
    async def async_bank() -> AsyncIterator[str]:
        yield connect()

    deps = async_bank if is_async else bank
    with pytest.raises(
        LifespanFailed, match=r"'(async_)?bank' could not be opened on process .*no bank at port 1"
    ):
        deps.open()
    assert deps.open() == "bank"


def test_an_error_that_no_retry_helps_is_passed_on(log: Log) -> None:
    @lifespan
    def bank() -> Iterator[str]:
        raise FatalError("the key of the bank is missing")
        yield "bank"

    with pytest.raises(FatalError, match="the key of the bank is missing"):
        bank.open()


def test_what_is_no_lifespan_is_refused() -> None:
    wrong: Lifespan[str] = lifespan(lambda: "deps")  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidFlow, match="returned a str; expected a function with one yield"):
        wrong.open()

    def undecorated() -> Iterator[None]:
        yield None

    class Shop(ControllerExecutorFlow):
        lifespan = undecorated  # type: ignore[assignment]

        def decide(self, context: RoundContext) -> None: ...

    with pytest.raises(InvalidFlow, match="expected what @lifespan makes"):
        Shop()


def test_a_test_replaces_it_for_a_while(log: Log) -> None:
    deps = kinds(log)["plain"]
    with deps.replaced("fake"):
        assert deps.open() == "fake"
    assert log == [] and deps.open() == "deps"


def test_it_cannot_be_opened_by_a_coroutine_that_the_loop_waits_for(log: Log) -> None:
    deps = kinds(log)["awaited"]

    async def too_late() -> str:
        return deps.open()

    with pytest.raises(LifespanFailed, match="on the same event loop"):
        run(too_late())


def test_a_flow_without_a_lifespan_says_so() -> None:
    with pytest.raises(InvalidFlow, match=r"context.deps.bank: this flow has no lifespan"):
        RoundContext("goal").deps.bank  # noqa: B018
    assert RoundContext[str]("goal", deps="mine").deps == "mine"
