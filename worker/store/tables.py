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

    The store does not read what a record contains.
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
        """Return an access token's stored record, or None, and the state server's clock (ms).

        The caller compares the clock with the record to see whether the token has expired.
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
        """Return the stored records of all access tokens, by token id."""
        with self._store._answered():
            return cast(dict[str, str], self._store.redis.hgetall(self._store.keys.tokens))

    def remove(self, token_id: str) -> bool:
        """Delete the stored record of an access token, and return whether it existed."""
        with self._store._answered():
            existed = bool(self._store.redis.hexists(self._store.keys.tokens, token_id))
            # Checked first, since a removal that is sent again after a lost reply finds nothing.
            self._store.redis.hdel(self._store.keys.tokens, token_id)
        return existed

    def any(self) -> bool:
        """Return whether any access token is stored, including expired or damaged ones."""
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
        """Delete the key that signs the dashboard's cookies, which invalidates every cookie."""
        with self._store._answered():
            self._store.redis.delete(self._store.keys.web_key)


class SignInCodes:
    """The codes of links that sign in to the dashboard once. Only their digests are stored."""

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def put(self, digest: str, token_id: str, ms: int) -> None:
        """Store the digest of a code that grants an access token once, for ``ms`` milliseconds."""
        with self._store._answered():
            self._store.redis.set(self._store.keys.sign_in(digest), token_id, px=ms)

    def take(self, digest: str) -> str | None:
        """Return the id of the access token that a code grants, and make the code invalid.

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
        """Return a person's saved filters of the table of runs: each filter's query by its name."""
        with self._store._answered():
            return cast(dict[str, str], self._store.redis.hgetall(self._key))

    def put(self, name: str, query: str) -> None:
        """Save a person's filter of the table of runs, in place of an earlier one of this name."""
        with self._store._answered():
            self._store.redis.hset(self._key, name, query)

    def remove(self, name: str) -> None:
        """Delete a person's saved filter of the table of runs, if it exists."""
        with self._store._answered():
            self._store.redis.hdel(self._key, name)


#: Runs examined in one exchange when a flow is unpaused.
BATCH = 500


class Pauses:
    """The paused flows of a store."""

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def add(self, flow: str, by: str | None = None, reason: str | None = None) -> bool:
        """Pause a flow, so that each of its runs waits from its next claim on.

        Returns:
            False if the flow was paused already. Who paused it, when and why are then unchanged.
        """
        info = json.dumps({"at": self._store.time(), "by": by, "reason": reason})
        with self._store._answered():
            return self._store.redis.hsetnx(self._store.keys.paused, flow, info) == 1

    def remove(self, flow: str) -> int:
        """Unpause a flow, and return how many of its waiting runs are now due.

        The call may be repeated. The pause is removed first, so that no further run waits for it.
        Then the waiting runs are found among the live ones.

        Raises:
            DamagedRun: a key that the runs share is of a wrong type.
        """
        with self._store._answered():
            self._store.redis.hdel(self._store.keys.paused, flow)
        return sum(self._offer(flow, index) for index in ("live", "live:children"))

    def _offer(self, flow: str, index: str) -> int:
        """Make the runs of an index due that wait for this flow, and return how many there were."""
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
        """Return, for each paused flow, when it was paused (ms), by whom and why."""
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
    """Return a refused message as the JSON text of a dead letter.

    It has when the message came, its queue, why it was refused, its length and its beginning.
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
        url: of the state server.
        prefix: of its keys.
    """

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(url, prefix, timeout=PATIENCE, resends=1)

    def put_aside(self, queue: str, text: str | bytes, why: str) -> None:
        """Store a refused message as a dead letter, and drop the oldest ones over the limit.

        Raises:
            StoreUnavailable: the server does not answer, or refuses to write.
        """
        with self._answered(), self.redis.pipeline() as pipe:
            pipe.lpush(self.keys.dead_letters, letter(queue, text, why))
            pipe.ltrim(self.keys.dead_letters, 0, KEPT - 1)
            pipe.execute()
