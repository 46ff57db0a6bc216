"""The time limit of an MCP session's start, and pings of a server that does not respond."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.flows.executors.mcp.transports import BUSY, McpTransport, requests

if TYPE_CHECKING:
    from mcp import Client, MCPError

logger = logging.getLogger("perdure.mcp")
#: Seconds for the answer to a ping.
PING_SECONDS = 10.0
#: Seconds that the end of a session waits for a pending ping: over HTTP for its answer, and if it
#: was cancelled, for its end.
LAST_SECONDS = 1.0
#: The errors by which the client library (mcp 2.3) reports a broken connection: the whole text, or
#: its beginning before the cause. A tool may have an error with the same code.
CLOSED = (
    "Connection closed",
    "SSE stream ended without a response",
    "SSE stream ended and reconnection attempts were exhausted",
)
BROKEN = "SSE stream failed: "
#: The errors by which the library reports a response that is no JSON-RPC, by code.
ACCEPTED = "server answered a request with 202 Accepted"
ODD_TYPE = "Unexpected content type: "
UNPARSED = ("Failed to parse SSE message: ", "Failed to parse JSON response: ")


class StartLimit:
    """The time limit of a session's start. The end of the session may bring it forward.

    The client library shields the end of a server's program from cancellations of its own kind, but
    not from those of asyncio. So nothing may cancel the session once it ends its program: the
    program would stay.

    Args:
        seconds: The time that a start may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._limit: asyncio.Timeout | None = None

    def begin(self) -> asyncio.Timeout:
        """Return the context manager in which the session is started. It raises TimeoutError."""
        self._limit = asyncio.timeout(self._seconds)
        return self._limit

    def lift(self) -> None:
        """Remove the limit: the session is open, or ends its program."""
        self._move(None)

    def expire(self) -> bool:
        """End a start that has not finished. Return False if it has not begun."""
        if self._limit is None:
            return False
        if self._limit.when() is not None:
            self._move(asyncio.get_running_loop().time())
        return True

    def _move(self, when: float | None) -> None:
        if self._limit is not None:
            with suppress(RuntimeError):  # It has expired, or the session has ended.
                self._limit.reschedule(when)


class Ping:
    """The pings of one session. At most one is pending.

    Args:
        what: The MCP server, for the log.
        retire: Called if the server does not know the session, or the connection is broken: the
            session takes no further calls.
        end: Called if the server does not answer: the session ends, with its running calls.
    """

    def __init__(self, what: str, retire: Callable[[], None], end: Callable[[], None]) -> None:
        self._what, self._retire, self._end = what, retire, end
        self._pending: asyncio.Task[None] | None = None
        self._is_last = False

    def send(self, client: Client) -> None:
        """Send a ping to an MCP server that did not respond in time, unless one is pending.

        This does not wait for the outcome. A server that answers is only slow, and keeps its
        session. After ``end``, nothing is sent.
        """
        if self._is_last:
            return
        if self._pending is None or self._pending.done():
            self._pending = asyncio.create_task(self._wait(client))

    async def settle(self, seconds: float | None = None) -> None:
        """Wait for the outcome of a pending ping, which decides whether the session ends.

        If no ping is pending, return at once.

        Args:
            seconds: Maximum time to wait. None: until the ping has an outcome.
        """
        if self._pending is not None:
            await asyncio.wait({self._pending}, timeout=seconds)

    async def end(self, seconds: float) -> None:
        """Cancel a pending ping, after a time for its answer. Do not wait for its end.

        The library tells the MCP server of the cancelled ping. A program that does not read its
        input delays that until its session ends.

        Args:
            seconds: Time for the answer. A ping over HTTP needs it: cancelled while it connects, it
                would leave its socket to the garbage collector.
        """
        self._is_last = True
        await self.settle(seconds)
        if self._pending is not None:
            self._pending.cancel()

    async def _wait(self, client: Client) -> None:
        from mcp import MCPError
        from mcp_types import EmptyResult, PingRequest

        served: list[McpTransport] = []
        requests.set(served)
        try:
            async with asyncio.timeout(PING_SECONDS):
                await client.session.send_request(PingRequest(), EmptyResult)
        except MCPError as error:
            if _is_broken(error) or not all(map(_is_pong, served)):
                self._retire()
        except Exception as error:
            reason = type(error).__name__
            logger.warning("%s: no answer to a ping (%s); opens a new session", self._what, reason)
            self._end()


def is_unread(error: BaseException) -> bool:
    """Return whether the client library reports that it has no readable response.

    The response of an HTTP service may be broken off, or not be JSON-RPC. A response that exceeds a
    limit of this package counts as read, because another attempt would exceed the limit again.
    """
    from mcp import MCPError
    from mcp_types import INVALID_REQUEST, PARSE_ERROR

    from perdure.flows.executors.mcp.bounds import COMPRESSED, TOO_LARGE

    if not isinstance(error, MCPError):
        return False
    if error.code == INVALID_REQUEST:
        return error.message == ACCEPTED or error.message.startswith(ODD_TYPE)
    if error.code == PARSE_ERROR:
        is_limit = error.message.endswith((TOO_LARGE, COMPRESSED))
        return error.message.startswith(UNPARSED) and not is_limit
    return _is_broken(error)


def _is_broken(error: MCPError) -> bool:
    from mcp_types import CONNECTION_CLOSED

    is_text = error.message in CLOSED or error.message.startswith(BROKEN)
    return error.code == CONNECTION_CLOSED and is_text


def _is_pong(outcome: McpTransport) -> bool:
    """Return whether the response to a ping shows that the MCP server still knows the session.

    A busy server does not look at the session. Later versions of the protocol have no sessions and
    no ping, so any JSON-RPC error is an answer.
    """
    is_error = outcome.is_answer and not outcome.has_session
    return not outcome.failed or outcome.status in BUSY or is_error
