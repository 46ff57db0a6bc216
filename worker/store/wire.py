"""The connections of transitions, each used by one thread.

Connections are reused. redis-py checks before each command whether the connection is still open,
and sends a command again without a log line. Here, the check is left out, and a command that is
sent again is logged. Every transition may be repeated.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import redis
from redis.backoff import AbstractBackoff, NoBackoff
from redis.retry import Retry

logger = logging.getLogger("perdure.store")


class Wire:
    """Exchanges with the state server, over connections like those of ``client``.

    A new connection is opened only if all others are in use. So there are never more connections
    than simultaneous calls.

    Args:
        resends: how often a request is sent again after a connection error.
        backoff: the delay before a request is sent again.
    """

    def __init__(self, client: redis.Redis, resends: int, backoff: AbstractBackoff) -> None:
        self._pool = client.connection_pool
        self._resends, self._backoff = resends, backoff
        self._idle: deque[Any] = deque()
        self._pid = os.getpid()

    def ask(self, request: bytes) -> Any:
        """Send one command, and return its reply. An error reply is raised.

        Args:
            request: the command as bytes (``packed``).
        """
        return told(self.exchange(request, 1)[0])

    def exchange(self, request: bytes, answers: int) -> list[Any]:
        """Send several commands together, and return their replies.

        They go over one connection. An error reply is returned in the list, not raised. After a
        connection error, all commands are sent again.

        Args:
            request: the commands as bytes (``packed``).
            answers: the number of commands.

        Raises:
            redis.ConnectionError, redis.TimeoutError: no reply came, even to the last repetition.
        """
        connection = self._take()
        was_connected, failures = connection.is_connected, 0
        while True:
            try:
                connection.send_packed_command((request,))
                replies = [_answer(connection) for _ in range(answers)]
            except (redis.ConnectionError, redis.TimeoutError) as error:
                connection.disconnect()
                # The server or a proxy closed the connection since its last use. That is not a
                # failure of this exchange.
                failures += 0 if was_connected and isinstance(error, redis.ConnectionError) else 1
                if failures > self._resends:
                    raise
                was_connected = False
                logger.debug(
                    "sent again (%d of at most %d times) after: %s", failures, self._resends, error
                )
                time.sleep(self._backoff.compute(failures) if failures else 0.0)
                continue
            # Only after all replies are read. A connection that an exception interrupted is never
            # reused.
            self._idle.append(connection)
            return replies

    def close(self) -> None:
        """Close the connections that no thread is using."""
        while self._idle:
            self._take().disconnect()

    def _take(self) -> Any:
        if self._pid != os.getpid():  # a fork: the connections are the parent's
            self._idle, self._pid = deque(), os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            connection: Any = self._pool.connection_class(**self._pool.connection_kwargs)
            connection.retry = Retry(NoBackoff(), 0)  # commands are repeated above
            return connection


def told(answer: Any) -> Any:
    """Return a server's reply, or raise it if it is an error reply."""
    if isinstance(answer, Exception):
        raise answer
    return answer


#: Encoded arguments. Most arguments of a transition are the same each time (names of keys and of
#: arguments). The first 2000 different ones that are shorter than 60 bytes are cached.
_sent: dict[str | bytes | int, str] = {}
MOST_SENT, LONGEST_SENT = 2000, 60


def packed(items: Iterable[str | bytes | int]) -> bytes:
    """Return a command as bytes of the RESP protocol.

    Surrogate escapes in a text become the undecodable bytes for which they stand.

    Args:
        items: the command and its arguments.
    """
    parts = [_sent.get(item) or _part(item) for item in items]
    return f"*{len(parts)}\r\n{''.join(parts)}".encode("utf-8", "surrogateescape")


def _part(item: str | bytes | int) -> str:
    text = (
        item
        if isinstance(item, str)
        else item.decode("utf-8", "surrogateescape")
        if isinstance(item, bytes)
        else f"{item:d}"
    )
    # Most texts are ASCII and have as many bytes as characters. They are all encoded together,
    # which takes a third of the time.
    length = len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
    part = f"${length}\r\n{text}\r\n"
    if len(_sent) < MOST_SENT and length < LONGEST_SENT:
        _sent[item] = part
    return part


def _answer(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error
