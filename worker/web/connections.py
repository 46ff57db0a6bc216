"""Connections of the control room: those that stall are closed, so that strangers cannot hold all of them.

Uvicorn limits neither the time that a request takes to arrive nor the number of connections.
This is its protocol of HTTP/1.1 with both. It uses ``conn`` (h11's state), ``server_state`` and ``transport`` of it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger("holdfast.web")

#: Descriptors that are kept for the state server's connections, files and the sockets that listen.
RESERVED = 160
#: Seconds between two warnings of a flood.
WARN_SECONDS = 60.0


def most_connections() -> int:
    """Return how many connections this process accepts at once, by its limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 65_536 if soft == resource.RLIM_INFINITY else max(soft - RESERVED, soft // 2)


class Connection(H11Protocol):
    """A connection that is closed when its client stalls.

    When all are in use, the one that has been without a request for longest is closed for a new one.
    Where each has a request, the new one is closed.
    """

    #: How many are accepted at once.
    most = most_connections()
    #: Seconds for a request's head to arrive. Clients send it at once.
    head_seconds = 10.0
    #: Seconds for a body to arrive: the largest takes 18 s over a line of 1 Mbit/s.
    body_seconds = 60.0
    #: Seconds without progress while a response is read.
    read_seconds = 60.0
    #: When the last warning was written, in the loop's time: a flood of connections is told once a minute.
    _warned = -math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arriving: asyncio.TimerHandle | None = None
        self._waits_for: object = None
        self._unread: asyncio.TimerHandle | None = None
        self._is_given_up = False
        self._silent_since = self.loop.time()
        self._expect(h11.IDLE, self.head_seconds)
        if len(self.connections) > self.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self._cancel_unread()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        state = self.conn.their_state
        if state is h11.IDLE:
            self._expect(state, self.head_seconds)
        elif state is h11.SEND_BODY:
            self._expect(state, self.body_seconds)
        else:
            self._expect(None)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_seconds, self._give_up, "did not read its response in time")

    def resume_writing(self) -> None:
        self._cancel_unread()
        super().resume_writing()

    @property
    def is_silent(self) -> bool:
        """Whether it waits for a request."""
        return self._waits_for is h11.IDLE

    def _expect(self, state: object, seconds: float = 0.0) -> None:
        """Start the timer for what has to arrive next, unless it runs already; None stops it."""
        if state is self._waits_for:
            return
        if self._arriving is not None:
            self._arriving.cancel()
        self._arriving, self._waits_for = None, state
        if state is not None:
            self._silent_since = self.loop.time()
            self._arriving = self.loop.call_later(seconds, self._give_up, "sent no whole request in time")

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _give_up(self, why: str) -> None:
        logger.debug("connection of %s closed: it %s", self.client, why)
        self._is_given_up = True
        self.transport.abort()

    def _make_room(self) -> None:
        # One that is given up stays among the connections until the event loop has closed it.
        open_ones = [each for each in self.connections if isinstance(each, Connection) and not each._is_given_up]
        if len(open_ones) <= self.most:
            return
        silent = [each for each in open_ones if each.is_silent and each is not self]
        oldest = min(silent, key=lambda each: each._silent_since, default=self)
        if self.loop.time() - Connection._warned > WARN_SECONDS:
            Connection._warned = self.loop.time()
            logger.warning("all %d connections are in use: the oldest without a request are closed for new ones", self.most)
        oldest._give_up("made room for another")
