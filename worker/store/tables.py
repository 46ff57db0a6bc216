"""The small tables of the store: dead letters, access tokens, saved filters and paused flows.

A dead letter is a message that validation refused, stored for inspection. With the tokens is the
key that signs the dashboard's cookies. A run of a paused flow waits from its next claim until
the flow is unpaused.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, cast

from perdure.worker.errors import DamagedRun
from perdure.worker.store.connection import StoreConnection

if TYPE_CHECKING:
    from perdure.worker.store.connection import StoreConnection


class TokenRecords:
    """The token records of a store, by token id.

    The store does not read the contents of a record.
    """

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def put(self, token_id: str, record: str) -> None:
        """Store the record of an access token.

        The call may be repeated.
        """
        with self._store._answered():
            self._store.redis.hset(self._store.keys.tokens, token_id, record)

    def get(self, token_id: str) -> tuple[str | None, int]:
        """Return a token's record, and the server's clock (ms).

        The record is None if there is none. The caller compares the clock with the record to see
        whether the token has expired.
        """
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            pipe.hget(self._store.keys.tokens, token_id)
            pipe.time()
            record, (seconds, micros) = pipe.execute()
        return (
            record,
            self._store.now if self._store.now is not None else seconds * 1000 + micros // 1000,
        )

    def all(self) -> dict[str, str]:
        """Return all token records, by token id."""
        with self._store._answered():
            return cast(dict[str, str], self._store.redis.hgetall(self._store.keys.tokens))

    def remove(self, token_id: str) -> bool:
        """Delete a token's record, and return whether it existed."""
        with self._store._answered():
            existed = bool(self._store.redis.hexists(self._store.keys.tokens, token_id))
            # Checked first, since a removal that is sent again after a lost reply finds nothing.
            self._store.redis.hdel(self._store.keys.tokens, token_id)
        return existed

    def any(self) -> bool:
        """Return whether any token is stored.

        Expired and damaged ones count too.
        """
        with self._store._answered():
            return bool(self._store.redis.exists(self._store.keys.tokens))

    def signing_key(self, proposed: str) -> str:
        """Return the key that signs the dashboard's cookies.

        If none is stored, ``proposed`` is stored as the key. All servers of this prefix share it.
        """
        key = self._store.keys.web_key
        with self._store._answered():
            stored = cast("str | None", self._store.redis.get(key))
            if stored is None:
                self._store.redis.set(key, proposed, nx=True)
                stored = cast(str, self._store.redis.get(key))
        return stored

    def forget_signing_key(self) -> None:
        """Delete the cookie signing key. Every cookie becomes invalid."""
        with self._store._answered():
            self._store.redis.delete(self._store.keys.web_key)


class SignInCodes:
    """The codes of one-time sign-in links. Only their digests are stored."""

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def put(self, digest: str, token_id: str, ms: int) -> None:
        """Store a code's digest for ``ms`` milliseconds. The code grants the token once."""
        with self._store._answered():
            self._store.redis.set(self._store.keys.sign_in(digest), token_id, px=ms)

    def take(self, digest: str) -> str | None:
        """Take a code, and return its token's id.

        The code is then invalid.

        Returns:
            None if the code is unknown, used or expired.
        """
        key = self._store.keys.sign_in(digest)
        with self._store._answered():
            token_id = cast("str | None", self._store.redis.get(key))
            # Of two requests with one code, the deletion lets one sign in.
            return token_id if token_id and self._store.redis.delete(key) == 1 else None


class FilterRecords:
    """The saved filters of one person."""

    def __init__(self, store: StoreConnection, owner: str) -> None:
        self._store = store
        self._key = store.keys.filters(owner)

    def all(self) -> dict[str, str]:
        """Return a person's saved filters: queries by name."""
        with self._store._answered():
            return cast(dict[str, str], self._store.redis.hgetall(self._key))

    def put(self, name: str, query: str) -> None:
        """Save a filter, replacing one of the same name."""
        with self._store._answered():
            self._store.redis.hset(self._key, name, query)

    def remove(self, name: str) -> None:
        """Delete a saved filter, if it exists."""
        with self._store._answered():
            self._store.redis.hdel(self._key, name)


#: Runs examined in one exchange when a flow is unpaused.
BATCH = 500


class Pauses:
    """The paused flows of a store."""

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def add(self, flow: str, by: str | None = None, reason: str | None = None) -> bool:
        """Pause a flow: its runs wait from their next claim on.

        Returns:
            False if the flow was paused already. Who paused it, when and why are then unchanged.
        """
        info = json.dumps({"at": self._store.time(), "by": by, "reason": reason})
        with self._store._answered():
            return self._store.redis.hsetnx(self._store.keys.paused, flow, info) == 1

    def remove(self, flow: str) -> int:
        """Unpause a flow. Return how many waiting runs are now due.

        The call may be repeated. The pause is removed first, so that no further run waits for it.
        Then the waiting runs are found among the live ones.

        Raises:
            DamagedRun: a key that the runs share is of a wrong type.
        """
        with self._store._answered():
            self._store.redis.hdel(self._store.keys.paused, flow)
        return sum(self._offer(flow, index) for index in ("live", "live:children"))

    def _offer(self, flow: str, index: str) -> int:
        """Make the flow's waiting runs due. Return their number."""
        store = self._store
        offered, cursor = 0, 0
        while True:
            with store._answered():
                page: Any = store.redis.zscan(store.keys.index(index), cursor, count=BATCH)
            cursor, pairs = page[0], page[1]
            if pairs:
                keys = [store.keys.due, *(store.keys.run(run_id) for run_id, _ in pairs)]
                replies = store._call("requeue_paused", keys, {"flow": flow})
                if replies[0] == "damaged":
                    raise DamagedRun(
                        f"flow {flow!r} is unpaused, but its waiting runs were not made due: "
                        f"{replies[1]} has a wrong type; find out who wrote to the server"
                    )
                offered += replies.count("due")
            if cursor == 0:
                return offered

    def all(self) -> dict[str, dict[str, Any]]:
        """Return each paused flow's pause: time (ms), person and reason."""
        with self._store._answered():
            paused = cast(dict[str, str], self._store.redis.hgetall(self._store.keys.paused))
        return {flow: json.loads(info) for flow, info in sorted(paused.items())}


#: Maximum number of dead letters. The oldest are dropped.
KEPT = 1000
#: Maximum characters of a refused message that are stored. A character has at most 4 bytes.
KEPT_CHARACTERS = 2000
#: Seconds to wait for the state server, since the worker's event loop waits as well.
PATIENCE = 1.0


def letter(queue: str, text: str | bytes, why: str) -> str:
    """Return a refused message as a dead letter's JSON.

    It has the time, the queue, the reason of the refusal, and the message's length and beginning.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    shown = data[: 4 * KEPT_CHARACTERS].decode("utf-8", "replace")
    return json.dumps(
        {
            "at": time.time(),
            "list": queue,
            "why": why,
            "bytes": len(data),
            "message": shown[:KEPT_CHARACTERS],
        }
    )


class DeadLetters(StoreConnection):
    """The bounded list of dead letters on the state server.

    It uses a connection of its own with a short timeout. Nothing connects before the first message.

    Args:
        url: URL of the state server.
        prefix: prefix of its keys.
    """

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(url, prefix, timeout=PATIENCE, resends=1)

    def put_aside(self, queue: str, text: str | bytes, why: str) -> None:
        """Store a refused message as a dead letter. Drop the oldest ones over the limit.

        Raises:
            StoreUnavailable: the server does not answer, or refuses to write.
        """
        with self._answered(), self.redis.pipeline() as pipe:
            pipe.lpush(self.keys.dead_letters, letter(queue, text, why))
            pipe.ltrim(self.keys.dead_letters, 0, KEPT - 1)
            pipe.execute()
