"""The event loop that runs a process's MCP sessions. Rounds submit work to it and wait."""

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

from perdure.flows.commands.calls import cancelled_of_round
from perdure.flows.core.errors import RoundStopped
from perdure.flows.executors.mcp.config import ServerConfig
from perdure.flows.executors.mcp.session import McpSession

T = TypeVar("T")
logger = logging.getLogger("perdure.mcp")
#: Seconds between two checks of the cancel token by a waiting round.
_SLICE = 0.05
#: Seconds that an ending process waits for its sessions to close. Programs see the end of their
#: input in any case.
CLOSING_SECONDS = 5.0


class BackgroundLoop:
    """The MCP sessions of this process, one for each server, and the thread that runs them.

    The thread starts with the first session.
    """

    _loop: asyncio.AbstractEventLoop | None

    def __init__(self) -> None:
        self._forget_parent()
        os.register_at_fork(after_in_child=self._forget_parent)

    def run(self, work: Coroutine[Any, Any, T], cancelled: threading.Event | None = None) -> T:
        """Run a coroutine in the sessions' event loop, and wait for its result.

        Args:
            cancelled: The round's cancel token. None: the token of the round that this thread runs,
                if it runs one.

        Raises:
            RoundStopped: ``cancelled`` was set meanwhile. The coroutine is cancelled, but this
                method does not wait for its end.
            Exception: Any exception that the coroutine raises.
        """
        cancelled = cancelled_of_round() if cancelled is None else cancelled
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        while not future.done():
            concurrent.futures.wait([future], _SLICE)
            if cancelled is not None and cancelled.is_set() and not future.done():
                future.cancel()
                raise RoundStopped(
                    "the round was cancelled; the MCP server's answer was not awaited"
                )
        return future.result()

    async def session(self, name: str, server: ServerConfig) -> McpSession:
        """Return this process's session with an MCP server. Call this only in the event loop.

        If there is no session, or it has ended, a new one is opened. While a ping of the session is
        pending, this waits for its outcome.
        """
        session = self._sessions.get(server.key)
        if session is not None:
            await session.ping.settle()
            session = self._sessions.get(server.key)
        if session is None or session.ended:
            session = self._sessions[server.key] = McpSession(name, server)
        return session

    def close(self) -> None:
        """Close all MCP sessions of this process. Wait at most ``CLOSING_SECONDS`` for that."""
        if self._loop is not None:
            closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
            with suppress(TimeoutError):
                closing.result(CLOSING_SECONDS)

    async def _close(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions.values()))
        self._sessions.clear()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="mcp", daemon=True).start()
                atexit.register(self.close)
            return self._loop

    def _forget_parent(self) -> None:
        """Forget the sessions and the event loop that a fork copied from its parent.

        The thread that runs them is not copied. The sessions remain the parent's.
        """
        self._lock = threading.Lock()
        self._loop = None
        self._sessions: dict[str, McpSession] = {}


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the sessions' event loop until it is closed. An error of a task restarts it.

    SystemExit and KeyboardInterrupt in a task end an asyncio loop. Without the restart, all rounds
    would wait for ever.
    """
    while not loop.is_closed():
        try:
            loop.run_forever()
        except BaseException:  # the task raises it too, in the round that waits for it
            logger.exception("a task of an MCP session stopped the event loop; restarting the loop")


background = BackgroundLoop()
