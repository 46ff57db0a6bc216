"""Errors that end a process, and the others."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
from celery.exceptions import WorkerShutdown

from perdure.flows.commands.calls import call
from perdure.flows.core import event_loop
from perdure.flows.core.cancellation import Signals
from perdure.flows.core.errors import TOLD_TO_END, ProcessEnd, RoundStopped, ends_process
from perdure.flows.executors.mcp.event_loop import BackgroundLoop
from perdure.flows.rounds.context import RoundContext


def test_a_process_ends_by_what_celery_raises_in_the_main_thread_alone() -> None:
    told = SystemExit(TOLD_TO_END)
    assert [ends_process(error) for error in (told, WorkerShutdown(0), ProcessEnd())] == [
        True,
        True,
        True,
    ]
    assert not any(
        map(
            ends_process,
            (SystemExit(1), SystemExit("no"), GeneratorExit(), asyncio.CancelledError()),
        )
    )
    elsewhere: list[bool] = []
    thread = threading.Thread(
        target=lambda: elsewhere.extend(map(ends_process, (told, WorkerShutdown(0), ProcessEnd())))
    )
    thread.start()
    thread.join()
    assert elsewhere == [False, False, True]


def test_ctrl_c_ends_a_process_where_no_worker_has_taken_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert ends_process(KeyboardInterrupt())
        signal.signal(signal.SIGINT, lambda *_: None)
        assert not ends_process(KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_loop_of_mcp_sessions_goes_on_when_a_task_raises_system_exit() -> None:
    background = BackgroundLoop()

    async def leave() -> None:
        raise SystemExit(3)

    async def stay() -> int:
        return 7

    with pytest.raises(SystemExit):
        background.run(leave())
    assert background.run(stay(), threading.Event()) == 7
    background.close()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_the_loop_of_flows_goes_on_when_a_coroutine_raises_what_ends_a_loop(
    error: type[BaseException],
) -> None:
    async def leave() -> None:
        raise error

    async def leave_in_a_task() -> None:
        await asyncio.create_task(leave())

    async def stop_the_loop() -> int:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return 6

    async def stay() -> int:
        return 7

    context = RoundContext("the goal")
    for left in (leave, leave_in_a_task):
        with pytest.raises(error):
            call(left, context)
    assert [call(each, context) for each in (stop_the_loop, stay)] == [6, 7]


def test_a_cancelled_round_does_not_wait_for_a_blocked_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_loop, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(event_loop, "BLOCKED_SECONDS", 0.01)
    signals, is_free, ended = Signals(), threading.Event(), threading.Event()

    async def blocks() -> None:
        signals.cancelled.set()
        is_free.wait(30)
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    try:
        with pytest.raises(RoundStopped, match="event loop"):
            call(blocks, RoundContext("the goal", signals=signals))
    finally:
        is_free.set()
    assert ended.wait(30), "the coroutine is cancelled once the loop is free"
