"""Figures: what workers add up of their rounds, and everything that a look for metrics reads; constant in the number of runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from worker.store.connection import is_denied
from worker.store.keys import INDEXES

if TYPE_CHECKING:
    from worker.store.store import Store

logger = logging.getLogger("holdfast.metrics")


@dataclass(frozen=True)
class Look:
    """What stands on the server. Times in ms of its clock.

    Attributes:
        queues: the hash of that name, with what transitions count (counting.lua).
        rounds: what workers added up, by field.
        listed: runs in each index. due: runs in the due set; first_due: when the first of them is due.
        lengths: of the broker's lists. heads: the message of each that is consumed next, where it has one.
        workers: name, last beat and announcement (JSON) of each.
        dead: messages put aside. paused: names of flows.
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


class Figures:
    """The figures of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, amounts: Mapping[str, float]) -> None:
        """Add to figures, by field, whole numbers and others, in one exchange; one that somebody damaged stays as it is.

        Raises StoreUnavailable; AccessDenied where the user may not (config/redis.acl).
        """
        key = self._store.keys.metrics
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            for name, amount in amounts.items():
                if isinstance(amount, int):
                    pipe.hincrby(key, name, amount)
                else:
                    pipe.hincrbyfloat(key, name, amount)
            answers = pipe.execute(raise_on_error=False) if amounts else []
            refused = [answer for answer in answers if isinstance(answer, redis.ResponseError)]
            for error in refused:
                if is_denied(error):
                    raise error
            if refused:
                logger.debug("%d of %d figures under %s were refused: %s", len(refused), len(amounts), key, refused[0])

    def look(self) -> Look:
        """All of it, in one exchange; raises StoreUnavailable, DamagedRun (a key that holds something else)."""
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
            for index in INDEXES:
                pipe.zcard(keys.index(index))
            for name in lists:
                pipe.llen(name)
                pipe.lrange(name, -1, -1)
            found: list[Any] = pipe.execute()
        (seconds, micros), queues, rounds, due, first, beats, infos, dead, paused, *rest = found
        listed, of_lists = rest[: len(INDEXES)], rest[len(INDEXES) :]
        return Look(
            now=self._store.now if self._store.now is not None else seconds * 1000 + micros // 1000,
            queues=queues,
            rounds=rounds,
            listed=dict(zip(INDEXES, listed, strict=True)),
            due=due,
            first_due=float(first[0][1]) if first else None,
            lengths=dict(zip(lists, of_lists[::2], strict=True)),
            heads={name: texts[0] for name, texts in zip(lists, of_lists[1::2], strict=True) if texts},
            workers=[(name, float(beat), infos[name]) for name, beat in beats if name in infos],
            dead=dead,
            paused=sorted(paused),
        )
