"""The small tables of the store: dead letters, access tokens, saved filters, paused flows.

A dead letter is a message that a worker did not accept as valid, stored for inspection. The key
that signs the dashboard's cookies is stored with the tokens. A run of a paused flow waits, from its
next claim until the flow is unpaused.
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
    """The records of access tokens, by token id.

    The store does not parse a record.
    """

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def put(self, token_id: str, record: str) -> None:
        """Store or replace the record of an access token."""
        with self._store._answered():
            self._store.redis.hset(self._store.keys.tokens, token_id, record)

    def get(self, token_id: str) -> tuple[str | None, int]:
        """Return an access token's record and the server's time.

        The time is in ms. The record is None if there is no such token. The caller needs the clock
        to check whether the token has expired.
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

        Expired and damaged tokens count, too.
        """
        with self._store._answered():
            return bool(self._store.redis.exists(self._store.keys.tokens))

    def signing_key(self, proposed: str) -> str:
        """Return the key that signs the dashboard's cookies.

        All server processes of this prefix share the key. If no key is stored, ``proposed`` is
        stored as the key.
        """
        key = self._store.keys.web_key
        with self._store._answered():
            stored = cast("str | None", self._store.redis.get(key))
            if stored is None:
                self._store.redis.set(key, proposed, nx=True)
                stored = cast(str, self._store.redis.get(key))
        return stored

    def forget_signing_key(self) -> None:
        """Delete the key that signs the dashboard's cookies. Every cookie becomes invalid."""
        with self._store._answered():
            self._store.redis.delete(self._store.keys.web_key)


class SignInCodes:
    """The codes of one-time sign-in links. Only their digests are stored."""

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def put(self, digest: str, token_id: str, ms: int) -> None:
        """Store the digest of a one-time code.

        Args:
            token_id: the id of the access token that the code grants.
            ms: the milliseconds after which the code expires.
        """
        with self._store._answered():
            self._store.redis.set(self._store.keys.sign_in(digest), token_id, px=ms)

    def take(self, digest: str) -> str | None:
        """Return the id of the token that a code grants, and delete the code.

        Args:
            digest: the digest of the code.

        Returns:
            None if the code is unknown, used or expired.
        """
        key = self._store.keys.sign_in(digest)
        with self._store._answered():
            token_id = cast("str | None", self._store.redis.get(key))
            # Of two requests with one code, the deletion lets one sign in.
            return token_id if token_id and self._store.redis.delete(key) == 1 else None


class FilterRecords:
    """The saved filters of one person.

    Args:
        owner: the name of the person.
    """

    def __init__(self, store: StoreConnection, owner: str) -> None:
        self._store = store
        self._key = store.keys.filters(owner)

    def all(self) -> dict[str, str]:
        """Return the person's saved filters: queries by name."""
        with self._store._answered():
            return cast(dict[str, str], self._store.redis.hgetall(self._key))

    def put(self, name: str, query: str) -> None:
        """Save a filter. A filter of the same name is replaced."""
        with self._store._answered():
            self._store.redis.hset(self._key, name, query)

    def remove(self, name: str) -> None:
        """Delete a saved filter. Nothing happens if it does not exist."""
        with self._store._answered():
            self._store.redis.hdel(self._key, name)


#: Runs examined in one exchange when a flow is unpaused.
BATCH = 500


class Pauses:
    """The paused flows of a store."""

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def add(self, flow: str, by: str | None = None, reason: str | None = None) -> bool:
        """Pause a flow: each of its runs waits from its next claim on.

        Args:
            by: the person who pauses the flow.

        Returns:
            False if the flow was paused already. Then nothing changes, not even person, time and
            reason.
        """
        info = json.dumps({"at": self._store.time(), "by": by, "reason": reason})
        with self._store._answered():
            return self._store.redis.hsetnx(self._store.keys.paused, flow, info) == 1

    def remove(self, flow: str) -> int:
        """Unpause a flow, and make its waiting runs due.

        The call may be repeated. The pause is removed first, so that no further run begins to wait.
        Then all live runs are read. Those of the flow that wait because of the pause become due.

        Returns:
            How many runs were made due.

        Raises:
            DamagedRun: a key that all runs share is of a wrong type. The flow is unpaused, but some
                of its waiting runs were not made due.
        """
        with self._store._answered():
            self._store.redis.hdel(self._store.keys.paused, flow)
        return sum(self._offer(flow, index) for index in ("live", "live:children"))

    def _offer(self, flow: str, index: str) -> int:
        """Make a flow's waiting runs due. Return their number.

        Args:
            index: the name of the index in which the runs are searched.
        """
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
        """Return the pause of each paused flow: time (ms), person and reason."""
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
    """Return an invalid message's dead letter, as JSON.

    It has the time, the queue, the reason, and the message's length and beginning.

    Args:
        text: the message.
        why: the reason for which the message is invalid.
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
    """The list of dead letters on the state server, which has a maximum length.

    It has a connection of its own with a short timeout. The connection is opened for the first
    message.

    Args:
        url: the URL of the state server.
        prefix: the beginning of each key.
    """

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(url, prefix, timeout=PATIENCE, resends=1)

    def put_aside(self, queue: str, text: str | bytes, why: str) -> None:
        """Store an invalid message as a dead letter.

        If there are more than ``KEPT`` dead letters, the oldest are deleted.

        Args:
            why: the reason for which the message is invalid.

        Raises:
            StoreUnavailable: the server does not answer, or does not accept writes.
        """
        with self._answered(), self.redis.pipeline() as pipe:
            pipe.lpush(self.keys.dead_letters, letter(queue, text, why))
            pipe.ltrim(self.keys.dead_letters, 0, KEPT - 1)
            pipe.execute()
