"""The thread that sweeps, however much there is to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.servers import until
from worker import Settings
from worker.app import make_app
from worker.dispatch import Fused
from worker.store import Store
from worker.sweep import BATCH, Sweeper


def test_between_two_batches_of_what_is_due_the_worker_is_announced(store: Store) -> None:
    store.redis.zadd(store.keys.due, {f"gone{number}": 0 for number in range(3 * BATCH + 1)})
    left: list[Any] = []

    def announcement() -> Mapping[str, Any]:
        left.append(store.redis.zcard(store.keys.due))
        return {}

    settings = Settings(redis_url=store.url, prefix=store.keys.prefix, heartbeat_seconds=1e-6, sweep_seconds=30)
    sweeper = Sweeper(store, Fused(make_app(settings), store.keys), settings, "me", announcement)
    sweeper.start()
    sweeper.wake()  # not after its random phase
    try:
        until(lambda: 0 in left, "the last batch, at once")
    finally:
        sweeper.stop()
    assert left[:5] == [3 * BATCH + 1, 2 * BATCH + 1, BATCH + 1, 1, 0]
