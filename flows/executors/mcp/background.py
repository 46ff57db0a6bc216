"""The event loop of a process in which its MCP sessions live; rounds hand work to it and wait."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from flows.errors import RoundStopped
from flows.executors.mcp.declaration import ServerConfig
from flows.executors.mcp.session import Session
from flows.waiting import cancelled_of_round

T = TypeVar("T")
logger = logging.getLogger("holdfast.mcp")
#: How often a waiting round looks at its cancel token, in seconds.
_SLICE = 0.05
#: A process that ends waits so long for its servers to end; programs see the end of their input in any case.
CLOSING_SECONDS = 5.0


class Background:
    """The sessions of this process, one a server, and the thread that they run in; it starts with the first."""

    _loop: asyncio.AbstractEventLoop | None

    def __init__(self) -> None:
        self._forget_parent()

    def run(self, work: Coroutine[Any, Any, T], cancelled: threading.Event | None = None) -> T:
        """Do the work in the loop, and wait for it.

        Args:
            cancelled: the round's token; where it is not at hand, that of the round which this thread plays.

        Raises:
            RoundStopped: ``cancelled`` was set meanwhile; the work is told to end, and not waited for. Else what it raises.
        """
        cancelled = cancelled or cancelled_of_round()
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        while not future.done():
            concurrent.futures.wait([future], _SLICE)
            if cancelled is not None and cancelled.is_set() and not future.done():
                future.cancel()
                raise RoundStopped("the round was cancelled, so the MCP server's answer is not waited for")
        return future.result()

    async def session(self, name: str, server: ServerConfig) -> Session:
        """The session with this server; a new one where there is none, or the one that there was has ended. Only in the loop."""
        found = self._sessions.get(server.key)
        if found is None or found.ended:
            found = self._sessions[server.key] = Session(name, server)
        return found

    def close(self) -> None:
        """End all sessions of this process."""
        if self._pid == os.getpid() and self._loop is not None:
            closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
            with suppress(TimeoutError):
                closing.result(CLOSING_SECONDS)

    async def _close(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions.values()))
        self._sessions.clear()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            self._forget_parent()
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="mcp", daemon=True).start()
                atexit.register(self.close)
            return self._loop

    def _forget_parent(self) -> None:
        """Start anew: a fork copies the parent's sessions, but not the thread that they run in; they stay the parent's."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._loop = None
        self._sessions: dict[str, Session] = {}


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop, whatever a task in it raises: asyncio ends a loop with SystemExit and KeyboardInterrupt, and every round would wait."""
    while not loop.is_closed():
        try:
            loop.run_forever()
        except BaseException:  # its task has it as well, and with it the round that waits
            logger.exception("a task of an MCP session ended its event loop, which goes on")


background = Background()
