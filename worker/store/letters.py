"""Dead letters: messages that the guard refused, kept for people to look at."""

from __future__ import annotations

import json
import time

from worker.store.connection import Connection

#: Refused messages that are kept.
KEPT = 1000
#: How much of a refused message is kept.
KEPT_BYTES = 2000
#: Seconds that a letter may take: a worker's event loop waits for it.
PATIENCE = 1.0


def letter(queue: str, text: str | bytes, why: str) -> str:
    """A refused message as it is kept: when it came, on which queue, why it was refused, its length and its beginning."""
    shown = text[: 4 * KEPT_BYTES].decode("utf-8", "replace") if isinstance(text, bytes) else text
    return json.dumps({"at": time.time(), "list": queue, "why": why, "bytes": len(text), "message": shown[:KEPT_BYTES]})


class DeadLetters(Connection):
    """The bounded list of them on the state server, over a connection of its own that gives up soon.

    Args:
        url: of the state server. prefix: of its keys. Nothing is connected before the first letter.
    """

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(url, prefix, timeout=PATIENCE, resends=1)

    def put_aside(self, queue: str, text: str | bytes, why: str) -> None:
        """Keep a refused message; the oldest go.

        Raises:
            StoreUnavailable: the server does not answer, or takes no more.
        """
        with self._answered(), self.redis.pipeline() as pipe:
            pipe.lpush(self.keys.dead_letters, letter(queue, text, why))
            pipe.ltrim(self.keys.dead_letters, 0, KEPT - 1)
            pipe.execute()
