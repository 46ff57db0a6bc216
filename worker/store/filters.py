"""FilterRecords: the named views of the table of runs, as the store keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from worker.store.store import Store


class FilterRecords:
    """Those of one person."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._key = store.keys.filters(owner)

    def all(self) -> dict[str, str]:
        """Each query by its name."""
        with self._store._answered():
            return cast(dict[str, str], self._store.redis.hgetall(self._key))

    def put(self, name: str, query: str) -> None:
        """Keep one; another of this name is replaced."""
        with self._store._answered():
            self._store.redis.hset(self._key, name, query)

    def remove(self, name: str) -> None:
        """Forget one; none of this name is no error."""
        with self._store._answered():
            self._store.redis.hdel(self._key, name)
