"""Wire: the connections by which transitions travel, each used by one thread at a time and kept for the next call.

redis-py's client asks at each command whether the connection still stands, and sends again silently. Here a connection is tried
by using it, and what is sent again is logged; every transition may be repeated.
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

logger = logging.getLogger("holdfast.store")


class Wire:
    """Exchanges with the server of ``client``, over connections like those of its pool.

    There are as many as calls were under way at once, however many threads there are and whether they live on.

    Args:
        resends: how often a request is sent again after a connection error.
        backoff: how long to wait before that.
    """

    def __init__(self, client: redis.Redis, resends: int, backoff: AbstractBackoff) -> None:
        self._pool = client.connection_pool
        self._resends, self._backoff = resends, backoff
        self._kept: deque[Any] = deque()
        self._pid = os.getpid()

    def ask(self, request: bytes) -> Any:
        """The server's answer to one command; raises redis-py's errors."""
        return told(self.exchange(request, 1)[0])

    def exchange(self, request: bytes, answers: int) -> list[Any]:
        """The server's answers to so many commands, sent as one over one connection; an error that is one of them is among them.

        Raises:
            redis.ConnectionError, redis.TimeoutError: not even the last sending was answered.
        """
        connection = self._take()
        stands, failures = connection.is_connected, 0
        while True:
            try:
                connection.send_packed_command((request,))
                found = [_answer(connection) for _ in range(answers)]
            except (redis.ConnectionError, redis.TimeoutError) as error:
                connection.disconnect()
                # Closed by the server, or whatever lies between, since it was last used: no failure of this exchange.
                failures += 0 if stands and isinstance(error, redis.ConnectionError) else 1
                if failures > self._resends:
                    raise
                stands = False
                logger.debug("sent again (%d of at most %d times) after: %s", failures, self._resends, error)
                time.sleep(self._backoff.compute(failures) if failures else 0.0)
                continue
            # Only now, all answers read: a connection that any exception took from its call is never used again.
            self._kept.append(connection)
            return found

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._kept:
            self._take().disconnect()

    def _take(self) -> Any:
        if self._pid != os.getpid():  # a fork: the connections are the parent's
            self._kept, self._pid = deque(), os.getpid()
        try:
            return self._kept.pop()
        except IndexError:
            connection: Any = self._pool.connection_class(**self._pool.connection_kwargs)
            connection.retry = Retry(NoBackoff(), 0)  # what is to be repeated is repeated above
            return connection


def told(answer: Any) -> Any:
    """An answer, raised where it is an error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


#: Words as they are sent: most of a transition's are the same each time (names of keys and arguments). So many are kept, the first ones.
_sent: dict[str | bytes | int, str] = {}
MOST_SENT, LONGEST_SENT = 2000, 60


def packed(words: Iterable[str | bytes | int]) -> bytes:
    """One command as it is sent. Texts may hold undecodable bytes, as surrogate escapes."""
    parts = [_sent.get(word) or _part(word) for word in words]
    return f"*{len(parts)}\r\n{''.join(parts)}".encode("utf-8", "surrogateescape")


def _part(word: str | bytes | int) -> str:
    text = word if isinstance(word, str) else word.decode("utf-8", "surrogateescape") if isinstance(word, bytes) else f"{word:d}"
    # Of most words the bytes are as many as the characters, and all can be encoded together: a third of the time.
    length = len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
    part = f"${length}\r\n{text}\r\n"
    if len(_sent) < MOST_SENT and length < LONGEST_SENT:
        _sent[word] = part
    return part


def _answer(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error
