"""The event loop of this process, on which all coroutines of flows run.

A client of an asynchronous library belongs to one event loop. Because the process has only one, all
rounds of a flow can share such a client.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from perdure.flows.core.errors import RoundStopped

T = TypeVar("T")
logger = logging.getLogger("perdure.flow")
#: Seconds between two checks of the cancel token by a thread that waits for a coroutine.
POLL_SECONDS = 1.0
#: Seconds in which the event loop must run a callback. A loop that does not is blocked by a
#: coroutine that computes or calls blocking code.
BLOCKED_SECONDS = 5.0

_lock = threading.Lock()
#: The loop and its thread, by process id. A forked process starts its own.
_running: dict[int, tuple[asyncio.AbstractEventLoop, threading.Thread]] = {}


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process. The first call starts it in a thread of its own."""
    return _started()[0]


def _started() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    with _lock:
        pid = os.getpid()
        if pid not in _running:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_go_on, args=(loop,), name="perdure-loop", daemon=True)
            thread.start()
            _running.clear()
            _running[pid] = loop, thread
        return _running[pid]


def _go_on(loop: asyncio.AbstractEventLoop) -> None:
    """Run the event loop for the rest of the process.

    A coroutine that raises SystemExit or KeyboardInterrupt, or calls ``loop.stop``, ends an asyncio
    loop. Without a restart, all rounds with coroutines would wait for ever.
    """
    while not loop.is_closed():
        try:
            loop.run_forever()
        except BaseException as error:  # The waiting round gets it from its coroutine, too.
            logger.warning(
                "a coroutine of a flow raised %s; the event loop goes on", type(error).__name__
            )


def run(coroutine: Coroutine[Any, Any, T], cancelled: threading.Event | None = None) -> T:
    """Run a coroutine on this process's event loop. Return its result.

    An exception in the waiting thread, such as a KeyboardInterrupt, cancels the coroutine.

    Args:
        cancelled: the round's cancel token. The coroutine itself ends when the token is set. This
            function does not wait for its end if the event loop is blocked.

    Raises:
        RoundStopped: ``cancelled`` was set, and the event loop is blocked.
        RuntimeError: the calling thread runs the event loop and would wait for itself.
        Exception: any exception that the coroutine raises.
    """
    future = submit(coroutine)
    try:
        while not wait([future], POLL_SECONDS).done:
            if cancelled is not None and cancelled.is_set() and _is_blocked():
                raise RoundStopped(
                    "the round was cancelled. Its coroutine was not awaited, since the event loop "
                    f"has run nothing else for {BLOCKED_SECONDS:g} s: call blocking code with "
                    "asyncio.to_thread"
                )
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _is_blocked() -> bool:
    has_run = threading.Event()
    event_loop().call_soon_threadsafe(has_run.set)
    return not has_run.wait(BLOCKED_SECONDS)


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on this process's event loop, and return the future of its result.

    Raises:
        RuntimeError: the calling thread runs the event loop. The coroutine is closed unstarted.
    """
    loop, thread = _started()
    if threading.current_thread() is thread:
        coroutine.close()
        raise RuntimeError(
            "a coroutine of a flow has called code that waits for another coroutine, on the same "
            "event loop. Await that coroutine instead, or call the code with asyncio.to_thread"
        )
    return asyncio.run_coroutine_threadsafe(coroutine, loop)
