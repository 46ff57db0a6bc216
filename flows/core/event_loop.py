"""The event loop of this process, on which all coroutines of flows run.

A client of an asynchronous library belongs to one event loop. Because the process has only one, all
rounds of a flow can share such a client.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

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
            thread = threading.Thread(target=loop.run_forever, name="perdure-loop", daemon=True)
            thread.start()
            _running.clear()
            _running[pid] = loop, thread
        return _running[pid]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on this process's event loop. Return its result.

    An exception in the waiting thread, such as a KeyboardInterrupt, cancels the coroutine.

    Raises:
        RuntimeError: the calling thread runs the event loop and would wait for itself.
        Exception: any exception that the coroutine raises.
    """
    future = submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


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
