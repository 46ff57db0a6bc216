"""The notifications in the store: waiting ones, dead ones, and the progress of the search.

One worker at a time finds events and delivers notifications. If two workers did so for a moment,
they would only repeat deliveries, with the same ids. So nothing here needs a Lua script.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from perdure.worker.features.notifications.notification import Notification, moment

if TYPE_CHECKING:
    from perdure.worker.store.keys import Keys
    from perdure.worker.store.transitions import Store

#: Maximum number of dead notifications. The oldest are forgotten.
MOST_DEAD = 10_000
#: Milliseconds for which the id of a delivered notification is known, so that an event that is
#: found again is not sent again. A search goes back a minute at most.
DONE_KEPT = 600_000
#: The bounds of all scores.
FIRST: Any = "-inf"
LAST: Any = "+inf"
#: Ids that are read or removed in one exchange.
BATCH = 500


def key(keys: Keys, part: str) -> str:
    """Return the Redis key of one part of the notifications.

    The parts are:

    - ``records``: a hash of all waiting and dead notifications, by id.
    - ``due:RULE``: a sorted set of the ids that wait for delivery, by the time of the next attempt
      (ms).
    - ``dead`` and ``done`` (delivered): sorted sets of ids, by time (ms).
    - ``looked``: a hash of the times (ms) up to which events were found, by ``RULE:SOURCE``.
    - ``holder``: the name of the worker that finds events and delivers notifications.
    """
    return keys.of_feature("notifications", part)


class NotificationRecords:
    """The notifications in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._key = partial(key, store.keys)

    def hold(self, worker: str, ms: int) -> bool:
        """Take or extend the right to deliver, for the next ``ms`` milliseconds.

        Returns:
            True if this worker now has the right. False if another worker has it.
        """
        redis, key = self._store.redis, self._key("holder")
        with self._store._answered():
            if redis.set(key, worker, nx=True, px=ms):
                return True
            return redis.get(key) == worker and bool(redis.set(key, worker, xx=True, px=ms))

    def let_go(self, worker: str) -> None:
        """Release the right to deliver, so that another worker can take it at once.

        Nothing happens if this worker does not have the right.
        """
        key = self._key("holder")
        with self._store._answered():
            if self._store.redis.get(key) == worker:
                self._store.redis.delete(key)

    def looked(self) -> dict[str, int]:
        """Return the times (ms) up to which events were found, by ``RULE:SOURCE``.

        The source is ``ended`` or ``rest`` (waiting and stopped runs).
        """
        with self._store._answered():
            found = cast("dict[str, str]", self._store.redis.hgetall(self._key("looked")))
        return {name: int(text) for name, text in found.items() if text.isdecimal()}

    def add(
        self, found: Sequence[Notification], looked: Mapping[str, int], now: int
    ) -> list[Notification]:
        """Store notifications, due now, and the progress of searches in one write.

        Notifications that are already stored, or were delivered lately, are left out.

        Args:
            found: the notifications.
            looked: the new progress, in the form in which the method ``looked`` returns it.
            now: the present time in ms.

        Returns:
            The new notifications.
        """
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            for each in found:
                pipe.hexists(self._key("records"), each.id)
                pipe.zscore(self._key("done"), each.id)
            told: list[Any] = pipe.execute() if found else []
        new = [
            each
            for each, is_stored, done in zip(found, told[::2], told[1::2], strict=True)
            if not is_stored and done is None
        ]
        with self._store._answered(), self._store.redis.pipeline() as pipe:
            for each in new:
                pipe.hset(self._key("records"), each.id, each.packed())
                pipe.zadd(self._key(f"due:{each.rule}"), {each.id: now})
            if looked:
                pipe.hset(
                    self._key("looked"), mapping={name: str(at) for name, at in looked.items()}
                )
            pipe.execute()
        return new

    def due(self, rule: str, now: int, limit: int) -> list[str]:
        """Return at most ``limit`` ids of a rule's due notifications, the longest due first.

        Args:
            now: the present time in ms.
        """
        with self._store._answered():
            return cast(
                list[str],
                self._store.redis.zrange(
                    self._key(f"due:{rule}"),
                    FIRST,
                    now,
                    byscore=True,
                    offset=0,
                    num=limit,
                ),
            )

    def get(self, ids: Sequence[str]) -> list[Notification | None]:
        """Return the notifications with these ids, in the same order.

        An id that is neither waiting nor dead gives None.
        """
        if not ids:
            return []
        with self._store._answered():
            texts = self._store.redis.hmget(self._key("records"), list(ids))
        return [
            None if text is None else Notification.unpacked(text)
            for text in cast("list[str | None]", texts)
        ]

    def delivered(self, sent: Notification, now: int) -> None:
        """Record that a notification was delivered at ``now`` (ms)."""
        with self._store._answered(), self._store.redis.pipeline() as pipe:
            pipe.zrem(self._key(f"due:{sent.rule}"), sent.id)
            pipe.hdel(self._key("records"), sent.id)
            pipe.zadd(self._key("done"), {sent.id: now})
            self._count(pipe, sent, "delivered")
            pipe.execute()

    def drop(self, rule: str, notification_id: str) -> None:
        """Remove an id from the due notifications of a rule, because its record is gone."""
        with self._store._answered():
            self._store.redis.zrem(self._key(f"due:{rule}"), notification_id)

    def postpone(self, failed: Notification, due: int) -> None:
        """Record a failed attempt, and the time of the next attempt (``due``, ms)."""
        with self._store._answered(), self._store.redis.pipeline() as pipe:
            pipe.hset(self._key("records"), failed.id, failed.packed())
            pipe.zadd(self._key(f"due:{failed.rule}"), {failed.id: due})
            self._count(pipe, failed, "failed")
            pipe.execute()

    def give_up(self, failed: Notification, now: int) -> None:
        """Record a failed attempt, and make the notification dead.

        If there are more than ``MOST_DEAD`` dead notifications, the oldest are deleted.

        Args:
            now: the present time in ms.
        """
        dead = replace(failed, due_at=None, dead_at=moment(now))
        with self._store._answered(), self._store.redis.pipeline() as pipe:
            pipe.zrem(self._key(f"due:{dead.rule}"), dead.id)
            pipe.hset(self._key("records"), dead.id, dead.packed())
            pipe.zadd(self._key("dead"), {dead.id: now})
            self._count(pipe, dead, "failed")
            self._count(pipe, dead, "dead")
            pipe.zrange(self._key("dead"), 0, -MOST_DEAD - 1)
            oldest = cast(list[str], pipe.execute()[-1])
        self._forget(oldest)

    def send_again(self, ids: Iterable[str], now: int) -> list[str]:
        """Make waiting or dead notifications due now, and return their ids.

        Unknown ids are left out. Attempts are counted from 0 again, and the rule's ``patience``
        begins again.

        Args:
            now: the present time in ms.
        """
        wanted = list(ids)
        found = [each for each in self.get(wanted) if each is not None]
        with self._store._answered(), self._store.redis.pipeline() as pipe:
            for each in found:
                fresh = replace(
                    each, attempts=0, created_at=moment(now), due_at=moment(now), dead_at=None
                )
                pipe.hset(self._key("records"), each.id, fresh.packed())
                pipe.zadd(self._key(f"due:{each.rule}"), {each.id: now})
                pipe.zrem(self._key("dead"), each.id)
            pipe.execute()
        return [each.id for each in found]

    def forget(self, ids: Sequence[str]) -> list[str]:
        """Delete dead notifications, and return their ids. Ids that are not dead are ignored."""
        dead = [each.id for each in self.get(ids) if each is not None and each.dead_at is not None]
        self._forget(dead)
        return dead

    def dead(self, limit: int) -> list[Notification]:
        """Return at most ``limit`` dead notifications, newest first."""
        with self._store._answered():
            ids = self._store.redis.zrange(self._key("dead"), 0, limit - 1, desc=True)
        return [each for each in self.get(cast(list[str], ids)) if each is not None]

    def waiting(self, limit: int) -> list[Notification]:
        """Return at most ``limit`` waiting notifications of all rules, the next due first."""
        keys = [self._key(f"due:{rule}") for rule in self.rules()]
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.zrange(key, 0, limit - 1, withscores=True)
            pages: list[Any] = pipe.execute() if keys else []
        pairs = sorted((pair[1], pair[0]) for page in pages for pair in page)[:limit]
        found = zip(pairs, self.get([pair[1] for pair in pairs]), strict=True)
        return [replace(each, due_at=moment(at)) for (at, _), each in found if each is not None]

    def rules(self) -> list[str]:
        """Return the names of the rules for which workers have ever searched for events."""
        return sorted({name.partition(":")[0] for name in self.looked()})

    def backlog(self, rules: Sequence[str]) -> dict[str, int]:
        """Return the number of waiting notifications by rule."""
        if not rules:
            return {}
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            for rule in rules:
                pipe.zcard(self._key(f"due:{rule}"))
            counts: list[int] = pipe.execute()
        return dict(zip(rules, counts, strict=True))

    def dead_count(self) -> int:
        """Return the number of dead notifications."""
        with self._store._answered():
            return self._store.redis.zcard(self._key("dead"))

    def longest_due(self, rules: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Return id and due time (ms) of each rule's waiting notification that is due first.

        The result is by rule. A rule without a waiting notification is left out.
        """
        if not rules:
            return {}
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            for rule in rules:
                pipe.zrange(self._key(f"due:{rule}"), 0, 0, withscores=True)
            firsts: list[Any] = pipe.execute()
        return {
            rule: (first[0][0], int(first[0][1]))
            for rule, first in zip(rules, firsts, strict=True)
            if first
        }

    def is_stored(self, notification_id: str) -> bool:
        """Return whether a notification is waiting or dead."""
        with self._store._answered():
            return bool(self._store.redis.hexists(self._key("records"), notification_id))

    def forget_done(self, before: int) -> None:
        """Forget ids of notifications that were delivered before a time (ms).

        One call removes at most ``BATCH`` ids.
        """
        with self._store._answered():
            old = self._store.redis.zrange(
                self._key("done"), FIRST, before, byscore=True, offset=0, num=BATCH
            )
            if old:
                self._store.redis.zrem(self._key("done"), *cast(list[str], old))

    def _count(self, pipe: Any, counted: Notification, outcome: str) -> None:
        """Add a command to ``pipe`` that counts an attempt in the metrics, with its outcome."""
        pipe.hincrby(self._store.keys.metrics, json.dumps(["notified", counted.rule, outcome]), 1)

    def _forget(self, ids: Sequence[str]) -> None:
        if ids:
            with self._store._answered(), self._store.redis.pipeline() as pipe:
                pipe.zrem(self._key("dead"), *ids)
                pipe.hdel(self._key("records"), *ids)
                pipe.execute()


class RestingRuns:
    """Reads of the indexes of runs that have ended, wait for a person or are stopped."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def ended(self, index: str, since: int, limit: int) -> list[tuple[str, int]]:
        """Return at most ``limit`` runs that ended at ``since`` or later, earliest end first.

        Args:
            index: ``completed`` or ``errored``.
            since: the earliest time, inclusive, in ms since 1970.

        Returns:
            Pairs of a run's id and the time of its end (ms).
        """
        with self._store._answered():
            pairs: Any = self._store.redis.zrange(
                self._store.keys.index(index),
                since,
                LAST,
                byscore=True,
                offset=0,
                num=limit,
                withscores=True,
            )
        return [(pair[0], int(pair[1])) for pair in pairs]

    def entered(self, index: str, since: int) -> list[tuple[str, int]]:
        """Return the runs that began to wait for a person, or were stopped, at ``since`` or later.

        The index is ordered by the time of the runs' submission, so all its runs are read.

        Args:
            index: the name of the index: one of ``WAITING`` or ``STOPPED`` (``event_finder.py``).
            since: the earliest time, inclusive, in ms since 1970.

        Returns:
            Pairs of a run's id and the time when its wait began or it stopped (ms).
        """
        found: list[tuple[str, int]] = []
        after: str | None = None
        while True:
            # A run that waits all the time is found, whatever leaves the index meanwhile.
            entries = self._store.lists.listed(index, BATCH, after, oldest_first=True)
            ids = [run_id for run_id, _ in entries]
            for run_id, fields in zip(
                ids, self._store.reads.some_fields(ids, ("updated_at",)), strict=True
            ):
                at = fields.get("updated_at", "")
                if at.isdecimal() and int(at) >= since:
                    found.append((run_id, int(at)))
            if len(entries) < BATCH:
                return found
            after = f"{entries[-1][1]}:{ids[-1]}"
