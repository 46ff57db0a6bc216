"""Pauses: the flows that are paused. Their runs are held where they are claimed, and offered again once unpaused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from worker.errors import DamagedRun

if TYPE_CHECKING:
    from worker.store.store import Store

#: Runs looked at in one exchange when a flow is unpaused.
BATCH = 500


class Pauses:
    """The paused flows of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, flow: str, by: str | None = None, reason: str | None = None) -> bool:
        """Pause a flow; False where it was paused already (who did it, when and why stay as they were)."""
        info = json.dumps({"at": self._store.time(), "by": by, "reason": reason})
        with self._store._answered():
            return self._store.redis.hsetnx(self._store.keys.paused, flow, info) == 1

    def remove(self, flow: str) -> int:
        """Unpause a flow; returns how many runs that waited for this are due now.

        May be repeated. First the pause goes, so that no further run is held; then all that were held are found among the live ones.
        """
        store = self._store
        with store._answered():
            store.redis.hdel(store.keys.paused, flow)
        offered, cursor = 0, 0
        while True:
            with store._answered():
                found: Any = store.redis.zscan(store.keys.index("live"), cursor, count=BATCH)
            cursor, pairs = found[0], found[1]
            if pairs:
                keys = [store.keys.due, *(store.keys.run(run_id) for run_id, _ in pairs)]
                words = store._call("offer_again", keys, {"flow": flow})
                if words[0] == "damaged":
                    raise DamagedRun(f"the runs of flow {flow!r} were not offered again: {words[1]} is not what it should be")
                offered += words.count("due")
            if cursor == 0:
                return offered

    def all(self) -> dict[str, dict[str, Any]]:
        """Each paused flow with when (ms), by whom and why."""
        with self._store._answered():
            found = cast(dict[str, str], self._store.redis.hgetall(self._store.keys.paused))
        return {flow: json.loads(info) for flow, info in sorted(found.items())}
