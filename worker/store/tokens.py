"""TokenRecords: what the store keeps of the control room's tokens, and the key that its cookies are signed with."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from worker.store.store import Store


class TokenRecords:
    """The tokens of a store, by their ids. What a record holds is not its business."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, token_id: str, record: str) -> None:
        """Keep a record. May be repeated."""
        with self._store._answered():
            self._store.redis.hset(self._store.keys.tokens, token_id, record)

    def get(self, token_id: str) -> tuple[str | None, int]:
        """The record, or None; and the server's clock (ms), by which it may have expired."""
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            pipe.hget(self._store.keys.tokens, token_id)
            pipe.time()
            record, (seconds, micros) = pipe.execute()
        return record, self._store.now if self._store.now is not None else seconds * 1000 + micros // 1000

    def all(self) -> dict[str, str]:
        """Every record by its id."""
        with self._store._answered():
            return cast(dict[str, str], self._store.redis.hgetall(self._store.keys.tokens))

    def remove(self, token_id: str) -> bool:
        """Forget one; whether it was there."""
        with self._store._answered():
            known = bool(self._store.redis.hexists(self._store.keys.tokens, token_id))
            # Asked before: a removal that is sent again after a lost reply finds nothing.
            self._store.redis.hdel(self._store.keys.tokens, token_id)
        return known

    def any(self) -> bool:
        """Whether there is one at all, be it expired or damaged."""
        with self._store._answered():
            return bool(self._store.redis.exists(self._store.keys.tokens))

    def signing_key(self, proposed: str) -> str:
        """The key that cookies are signed with: the one there is, else ``proposed`` from now on, for every server of this prefix."""
        key = self._store.keys.web_key
        with self._store._answered():
            found = cast("str | None", self._store.redis.get(key))
            if found is None:
                self._store.redis.set(key, proposed, nx=True)
                found = cast(str, self._store.redis.get(key))
        return found

    def forget_signing_key(self) -> None:
        """Make every cookie that was signed with it worthless."""
        with self._store._answered():
            self._store.redis.delete(self._store.keys.web_key)
