"""Errors that end a process, and the others."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
from celery.exceptions import WorkerShutdown

from perdure.flows.core.errors import TOLD_TO_END, ProcessEnd, ends_process
from perdure.flows.executors.mcp.event_loop import BackgroundLoop


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
