"""Metrics on the state server: totals that workers add up, and one read for a scrape.

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
from perdure.worker.store.connection import is_denied
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES

if TYPE_CHECKING:
    from perdure.worker.store.connection import StoreConnection

logger = logging.getLogger("perdure.metrics")


@dataclass(frozen=True)
class MetricsRead:
    """A reading of the state server's metrics. Times are in ms of its clock.

    Attributes:
        queues: the fields of ``Keys.queues``, with the transitions' counts (parts/counters.lua).
        rounds: the totals over rounds that workers add up, by field of ``Keys.metrics``.
        listed: the number of runs in each index.
        due: the number of runs in the due set.
        first_due: when the first run in the due set is due; None if the set is empty.
        lengths: the length of each broker list.
        heads: for each list that is not empty, the message that is consumed next.
        workers: name, last heartbeat and announcement (JSON) of each worker.
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
        """Add amounts to the metric totals, by name and labels.

        All are sent in one exchange. A total that is no longer a number is left unchanged, and
        logged at debug level.

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
        """Return the state server's used memory and its limit, in bytes.

        A limit of 0 means that there is no limit.

        Returns:
            None if the server does not let this user read its INFO, or does not report them.
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
        """Return the data of a scrape, in one exchange.

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
    """Add amounts to the fields of a hash, in a pipeline."""
    for name, amount in amounts.items():
        if isinstance(amount, int):
            pipe.hincrby(key, name, amount)
        else:
            pipe.hincrbyfloat(key, name, amount)
