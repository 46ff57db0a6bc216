"""Connections of the HTTP server, with limits.

Without limits, slow or idle clients could occupy all connections. Uvicorn limits neither the time
that a request takes to arrive nor the number of connections. This module adds both limits to
Uvicorn's protocol for HTTP/1.1. It uses the protocol's attributes ``conn`` (h11's state),
``connections`` (all open connections of the server), ``client``, ``loop`` and ``transport``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger("perdure.web")

#: File descriptors reserved for connections to the state server, files and listening sockets.
RESERVED = 160
#: Seconds between two warnings that all connections are in use.
WARN_SECONDS = 60.0


def most_connections() -> int:
    """Return the maximum number of HTTP connections.

    It depends on the open-file limit of the process.

    Returns:
        The soft limit minus RESERVED, but at least half of the soft limit. 65,536 if there is no
        limit.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 65_536 if soft == resource.RLIM_INFINITY else max(soft - RESERVED, soft // 2)


class BoundedConnection(H11Protocol):
    """A connection that is closed if its client stalls.

    A new connection beyond the limit ``most`` replaces the connection that has been idle longest.
    If every other connection has a request in progress, the new connection is closed.
    """

    #: Maximum number of connections.
    most = most_connections()
    #: Seconds for a request's head to arrive. Clients send it at once.
    head_seconds = 10.0
    #: Seconds for a body to arrive. The largest allowed body takes 18 s at 1 Mbit/s.
    body_seconds = 60.0
    #: Seconds that a client may stop reading its response.
    read_seconds = 60.0
    #: When the last warning was logged, in the event loop's time. In a flood of connections, one
    #: warning a minute is logged.
    _warned = -math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for a connection's first request.

        If there are now more than ``most`` connections, close the connection that has been idle
        longest.
        If no other connection is idle, close this one.
        """
        super().connection_made(transport)
        self._arriving: asyncio.TimerHandle | None = None
        self._waits_for: object = None
        self._unread: asyncio.TimerHandle | None = None
        self._is_aborted = False
        self._silent_since = self.loop.time()
        self._expect(h11.IDLE, self.head_seconds)
        if len(self.connections) > self.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers of a connection that has ended."""
        self._expect(None)
        self._cancel_unread()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Process received bytes, then start the timer for the missing part of the request.

        That part is the request's head or its body. A timer that already runs for the same part is
        not restarted. After a complete request, no timer runs.
        """
        super().handle_events()
        state = self.conn.their_state
        if state is h11.IDLE:
            self._expect(state, self.head_seconds)
        elif state is h11.SEND_BODY:
            self._expect(state, self.body_seconds)
        else:
            self._expect(None)

    def pause_writing(self) -> None:
        """Start the timer for a client that stops reading.

        If the client does not read its response in time, the connection is closed.
        """
        super().pause_writing()
        self._unread = self.loop.call_later(
            self.read_seconds, self._abort, "the client did not read its response in time"
        )

    def resume_writing(self) -> None:
        """Stop the timer of ``pause_writing``: the client reads its response again."""
        self._cancel_unread()
        super().resume_writing()

    @property
    def is_silent(self) -> bool:
        """Whether the connection waits for a request's head."""
        return self._waits_for is h11.IDLE

    def _expect(self, state: object, seconds: float = 0.0) -> None:
        """Start the timer for a part of the request.

        If the part is late, the timer closes the connection.

        Args:
            state: h11's state while that part is missing: ``IDLE`` for the head, ``SEND_BODY`` for
                the body. A timer that already runs for this state is not restarted. None: stop the
                timer.
            seconds: Time until the connection is closed. Ignored if ``state`` is None.
        """
        if state is self._waits_for:
            return
        if self._arriving is not None:
            self._arriving.cancel()
        self._arriving, self._waits_for = None, state
        if state is not None:
            self._silent_since = self.loop.time()
            self._arriving = self.loop.call_later(
                seconds, self._abort, "the client did not send a complete request in time"
            )

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _abort(self, why: str) -> None:
        logger.debug("connection of %s closed: %s", self.client, why)
        self._is_aborted = True
        self.transport.abort()

    def _make_room(self) -> None:
        # An aborted connection remains in this set until the event loop has closed it.
        open_ones = [
            each
            for each in self.connections
            if isinstance(each, BoundedConnection) and not each._is_aborted
        ]
        if len(open_ones) <= self.most:
            return
        silent = [each for each in open_ones if each.is_silent and each is not self]
        oldest = min(silent, key=lambda each: each._silent_since, default=self)
        if self.loop.time() - BoundedConnection._warned > WARN_SECONDS:
            BoundedConnection._warned = self.loop.time()
            logger.warning(
                "all %d connections are in use: closing the oldest idle ones to accept new ones",
                self.most,
            )
        oldest._abort("it was idle, and a new connection needed its slot")
