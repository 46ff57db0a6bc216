"""Metrics on the state server: totals to which workers add, and one read for a scrape.

The cost of the read does not depend on the number of runs.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from perdure.worker.errors import AccessDenied
from perdure.worker.features import features
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES
from perdure.worker.store.refusals import is_denied

if TYPE_CHECKING:
    from perdure.worker.store.connection import StoreConnection

logger = logging.getLogger("perdure.metrics")


@dataclass(frozen=True)
class MetricsRead:
    """The metrics that one read of the state server returned. Times are in ms of its clock.

    Attributes:
        now: the time of the read.
        queues: the fields of ``Keys.queues``, with the transitions' counts (parts/counters.lua).
        rounds: the totals over all rounds, by field of ``Keys.metrics``.
        listed: the number of runs in each index, child runs included.
        due: the number of runs in the due set.
        first_due: the time at which the first run of the due set is due. None if the set is empty.
        lengths: the length of each broker list, by queue name.
        heads: the message that is consumed next from each list, by queue name. Empty lists are left
            out.
        workers: name, time of the last heartbeat and announcement (JSON) of each worker.
        dead: the number of dead letters.
        paused: the names of the paused flows.
    """

    now: int
    queues: Mapping[str, str]
    rounds: Mapping[str, str]
    listed: Mapping[str, int]
    due: int
    first_due: float | None
    lengths: Mapping[str, int]
    heads: Mapping[str, str]
    workers: list[tuple[str, float, str]]
    dead: int
    paused: list[str]


class MetricRecords:
    """Writes and reads of the metrics on the state server."""

    def __init__(self, store: StoreConnection) -> None:
        self._store = store

    def add(self, amounts: Mapping[tuple[str, ...], float]) -> None:
        """Add amounts to the totals of the metrics.

        One exchange sends all of them. If the stored total of a metric is not a number, it is left
        unchanged, and a debug line is logged.

        Args:
            amounts: the amount to add to each total, by name and labels of the metric.

        Raises:
            StoreUnavailable: the server does not answer.
            AccessDenied: this user may not write the totals (config/redis.acl).
        """
        key = self._store.keys.metrics
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            increase(pipe, key, {json.dumps(name): amount for name, amount in amounts.items()})
            for feature in features():
                feature.add_totals(pipe, self._store.keys, amounts, self._local_time())
            answers = pipe.execute(raise_on_error=False) if amounts else []
            refused = [answer for answer in answers if isinstance(answer, redis.ResponseError)]
            for error in refused:
                if is_denied(error):
                    raise error
            if refused:
                logger.debug(
                    "the server refused %d of %d totals under %s: %s",
                    len(refused),
                    len(amounts),
                    key,
                    refused[0],
                )

    def _local_time(self) -> int:
        now = self._store.now
        return now if now is not None else int(time.time() * 1000)

    def memory(self) -> tuple[int, int] | None:
        """Return the state server's memory use and limit.

        Both are in bytes. The limit is 0 if the server has none.

        Returns:
            None if this user may not read INFO, or if INFO does not report the used memory.
        """
        try:
            with self._store._answered():
                info: Any = self._store.redis.info("memory")
        except AccessDenied as error:
            logger.debug("the server's memory is not measured: %s", error)
            return None
        if "used_memory" not in info:
            return None
        return int(info["used_memory"]), int(info.get("maxmemory", 0))

    def look(self) -> MetricsRead:
        """Read all metrics for a scrape, in one exchange.

        Raises:
            StoreUnavailable: the server does not answer.
            DamagedRun: a key is of a wrong type.
        """
        keys, lists = self._store.keys, self._store.keys.queue_names
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            pipe.time()
            pipe.hgetall(keys.queues)
            pipe.hgetall(keys.metrics)
            pipe.zcard(keys.due)
            pipe.zrange(keys.due, 0, 0, withscores=True)
            pipe.zrange(keys.workers, 0, -1, withscores=True)
            pipe.hgetall(keys.announcements)
            pipe.llen(keys.dead_letters)
            pipe.hkeys(keys.paused)
            for index in (*INDEXES, *CHILD_INDEXES):
                pipe.zcard(keys.index(index))
            for name in lists:
                pipe.llen(name)
                pipe.lrange(name, -1, -1)
            replies: list[Any] = pipe.execute()
        (seconds, micros), queues, rounds, due, first, beats, infos, dead, *rest = replies
        paused, *rest = rest
        count = len(INDEXES)
        listed = [
            own + child for own, child in zip(rest[:count], rest[count : 2 * count], strict=True)
        ]
        of_lists = rest[2 * count :]
        return MetricsRead(
            now=self._store.now if self._store.now is not None else seconds * 1000 + micros // 1000,
            queues=queues,
            rounds=rounds,
            listed=dict(zip(INDEXES, listed, strict=True)),
            due=due,
            first_due=float(first[0][1]) if first else None,
            lengths=dict(zip(lists, of_lists[::2], strict=True)),
            heads={
                name: texts[0] for name, texts in zip(lists, of_lists[1::2], strict=True) if texts
            },
            workers=[(name, float(beat), infos[name]) for name, beat in beats if name in infos],
            dead=dead,
            paused=sorted(paused),
        )


def increase(pipe: Any, key: str, amounts: Mapping[str, float]) -> None:
    """Add commands to a pipeline that increase fields of a hash.

    Args:
        pipe: redis-py's pipeline. The caller executes it.
        key: the key of the hash.
        amounts: the amount to add to each field.
    """
    for name, amount in amounts.items():
        if isinstance(amount, int):
            pipe.hincrby(key, name, amount)
        else:
            pipe.hincrbyfloat(key, name, amount)
