"""Reads: what can be looked at without a transition, and the announcements of workers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import redis

from worker.store.connection import AccessDenied, Connection, is_denied
from worker.store.keys import INDEXES

#: Of the runs that are due from so many ms ago on the leases of a process are looked for, so many in one exchange; each goes on a little
#: before where the last one ended, as what was moved meanwhile stands elsewhere.
LATE_MS, HELD_PAGE, HELD_MOVED = 5_000, 1_000, 50


class Reads(Connection):
    """Looks; the announcements of workers are all it writes."""

    def fields(self, run_id: str) -> dict[str, str] | None:
        """The run's hash, or None."""
        with self._answered():
            return cast(dict[str, str], self.redis.hgetall(self.keys.run(run_id))) or None

    def holds(self, run_id: str, token: str, claim: str) -> bool:
        """Return whether the run is leased under this token and claim, and no stop was requested."""
        names = ("phase", "token", "claim_id", "stop_current_execution")
        with self._answered():
            phase, *held, stop = cast("list[str | None]", self.redis.hmget(self.keys.run(run_id), names))
        return phase == "leased" and held == [token, claim] and stop != "stop_requested"

    def memory(self, run_id: str, start: int = 0, stop: int | None = None) -> list[str]:
        """Memory entries ``[start, stop)``, packed; all by default."""
        with self._answered():
            return cast(list[str], self.redis.lrange(self.keys.memory(run_id), start, -1 if stop is None else stop - 1))

    def artifact(self, run_id: str, name: str) -> str | None:
        """The text of one artifact, or None."""
        with self._answered():
            return cast("str | None", self.redis.hget(self.keys.artifacts(run_id), name))

    def artifacts(self, run_id: str) -> dict[str, int]:
        """The names of the run's artifacts, each with its size in bytes."""
        key = self.keys.artifacts(run_id)
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            names = sorted(cast(list[str], self.redis.hkeys(key)))
            for name in names:
                pipe.hstrlen(key, name)
            return dict(zip(names, pipe.execute(), strict=True))

    def events(self, run_id: str, after: str | None = None, block: int | None = None, count: int = 500) -> list[tuple[str, dict[str, str]]]:
        """Events after the id ``after`` (None: from the first), oldest first; waits up to ``block`` ms for one."""
        return self.events_of({run_id: after or "0"}, block, count).get(run_id, [])

    def events_of(
        self, after: Mapping[str, str], block: int | None = None, count: int = 500
    ) -> dict[str, list[tuple[str, dict[str, str]]]]:
        """The same of several runs, by their ids, with one command: up to ``count`` of each that has any."""
        keys = {self.keys.events(run_id): run_id for run_id in after}
        with self._answered():
            found: Any = self.redis.xread({key: after[run_id] for key, run_id in keys.items()}, count=count, block=block)
        streams = found.items() if isinstance(found, dict) else found
        return {keys[key]: _flat(entries) for key, entries in streams}

    def newest_events(self, run_id: str, count: int, names: Sequence[str]) -> tuple[list[tuple[str, dict[str, str]]], dict[str, str]]:
        """The newest ``count`` events, newest first, and these fields of the run; what is not there is left out."""
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            pipe.xrevrange(self.keys.events(run_id), count=count)
            pipe.hmget(self.keys.run(run_id), names)
            entries, texts = pipe.execute()
        return entries, {name: text for name, text in zip(names, texts, strict=True) if text is not None}

    def latest_events(self, run_id: str, count: int, before: str | None = None) -> list[tuple[str, dict[str, str]]]:
        """The last events (before the id ``before``), oldest first."""
        with self._answered():
            found: Any = self.redis.xrevrange(self.keys.events(run_id), f"({before}" if before else "+", "-", count)
        return [(event, data) for event, data in reversed(found)]

    def listed(self, index: str, limit: int, before: str | None = None) -> list[tuple[str, float]]:
        """Ids of an index with their times (ms), newest first, from just after the cursor ``before`` ("score:id")."""
        return self._listed(self.keys.index(index), limit, before)

    def submitted(self, name: str, limit: int, before: str | None = None) -> list[tuple[str, float]]:
        """The same of one submitter's runs; some of them may be gone."""
        return self._listed(self.keys.submitted(name), limit, before)

    def forget_submitted(self, name: str, run_ids: Sequence[str]) -> None:
        """Take runs that are gone off the list of their submitter's; a user who may only look leaves that to others."""
        with suppress(AccessDenied), self._answered():
            self.redis.zrem(self.keys.submitted(name), *run_ids)

    def _listed(self, key: str, limit: int, before: str | None) -> list[tuple[str, float]]:
        if before is None:
            return self._newest(key, 0, limit)
        score, _, last = before.partition(":")
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            pipe.zrevrank(key, last)
            pipe.zscore(key, last)
            pipe.zcount(key, f"({score}", "+inf")
            rank, stands_at, newer = pipe.execute()
        place = (float(score), last)
        # Not in this index (any more): go on behind its time, and within the same time behind its id.
        start = rank + 1 if rank is not None and stands_at == place[0] else newer
        while True:
            entries = self._newest(key, start, limit)
            later = [(run_id, at) for run_id, at in entries if (at, run_id) < place]
            if later or len(entries) < limit:
                return later
            start += limit

    def _newest(self, key: str, start: int, limit: int) -> list[tuple[str, float]]:
        with self._answered():
            found = self.redis.zrange(key, start, start + limit - 1, desc=True, withscores=True)
        return [(pair[0], float(pair[1])) for pair in cast(list[Any], found)]

    def records(self, run_ids: Sequence[str]) -> list[dict[str, str] | None]:
        """The hashes of several runs in one exchange; None where there is none, empty where something else is under its key."""
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hgetall(self.keys.run(run_id))
            answers = pipe.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, redis.ResponseError) and is_denied(answer):
                    raise answer
            return [(found or None) if isinstance(found, dict) else {} for found in answers]

    def some_fields(self, run_ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
        """These fields of several runs in one exchange; what is not there is left out, as is all of what is no hash."""
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(self.keys.run(run_id), names)
            answers = pipe.execute(raise_on_error=False) if run_ids else []
        found = [dict(zip(names, answer, strict=True)) if isinstance(answer, list) else {} for answer in answers]
        return [{name: text for name, text in fields.items() if text is not None} for fields in found]

    def held_by(self, process: str) -> Iterator[tuple[str, int, int]]:
        """Run, epoch and step of each round that this process (``HOST:PID``) has leased: of its leases none has ended long ago."""
        for run_id, fields in self._due_lately(("phase", "claim_id", "epoch", "step")):
            if fields.get("phase") == "leased" and fields.get("claim_id", "").startswith(f"{process}."):
                yield run_id, int(fields["epoch"]), int(fields["step"])

    def passed(self) -> dict[str, tuple[str, ...]]:
        """Queued runs whose message is not in line any more, or again at its head: id to epoch, step and number.

        A worker has the message and claims the round in milliseconds, or the message is lost.
        """
        cursors = {queue: self._cursor(queue) for queue in self.keys.queue_names}
        passed: dict[str, tuple[str, ...]] = {}
        for run_id, fields in self._due_lately(("phase", "queue", "epoch", "step", "number", "handed_to")):
            cursor = cursors.get(fields.get("queue", ""))
            number = fields.get("number", "")
            is_passed = cursor is not None and number.isdecimal() and int(number) <= cursor
            if is_passed and fields.get("phase") == "queued" and "handed_to" not in fields:
                passed[run_id] = fields.get("epoch", ""), fields.get("step", ""), number
        return passed

    def _cursor(self, queue: str) -> float:
        """The number that the line has come to; where nothing is in line, it has passed all."""
        with self._answered():
            if not self.redis.llen(queue):
                return math.inf
            cursor = cast("str | None", self.redis.hget(self.keys.queues, f"{queue}:cursor")) or "0"
            return int(cursor) if cursor.isdecimal() else 0

    def _due_lately(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
        """These fields of each run that is due, or soon will be; of what was due long ago, nothing."""
        newest = self.time() - LATE_MS
        place = 0
        while True:
            with self._answered():
                ids = cast(list[str], self.redis.zrange(self.keys.due, newest, "+inf", byscore=True, offset=place, num=HELD_PAGE))
            yield from zip(ids, self.some_fields(ids, names), strict=True)
            if len(ids) < HELD_PAGE:
                return
            place += HELD_PAGE - HELD_MOVED

    def counts(self) -> dict[str, int]:
        """How many runs stand in each index, how many are due, how long the broker's lists are."""
        names = [self.keys.index(name) for name in INDEXES]
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for key in (*names, self.keys.due):
                pipe.zcard(key)
            for key in self.keys.queue_names:
                pipe.llen(key)
            found = pipe.execute()
        return dict(zip((*INDEXES, "due", *self.keys.queue_names), found, strict=True))

    def announce(self, worker: str, info: Mapping[str, Any], at: int, forget_before: int) -> None:
        """Say that ``worker`` lives, and what it plays; workers silent since ``forget_before`` (ms) are forgotten."""
        with self._answered(), self.redis.pipeline() as pipe:
            pipe.zadd(self.keys.workers, {worker: at})
            pipe.hset(self.keys.announcements, worker, json.dumps(info))
            pipe.zrangebyscore(self.keys.workers, "-inf", forget_before)
            gone = cast(list[str], pipe.execute()[-1])
            if gone:
                pipe.zrem(self.keys.workers, *gone)
                pipe.hdel(self.keys.announcements, *gone)
                pipe.execute()

    def called(self, run_id: str, epoch: int) -> None:
        """Say that the ``on_end`` of the run has been called for its end in ``epoch``, or need not be."""
        with self._answered():
            self.redis.zrem(self.keys.endings, f"{run_id} {epoch}")

    def withdraw(self, worker: str) -> None:
        """Say that ``worker`` has left in good order."""
        with self._answered(), self.redis.pipeline() as pipe:
            pipe.zrem(self.keys.workers, worker)
            pipe.hdel(self.keys.announcements, worker)
            pipe.execute()

    def workers(self) -> list[tuple[str, float, dict[str, Any]]]:
        """Name, last beat (ms) and announcement of each worker known."""
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            pipe.zrange(self.keys.workers, 0, -1, withscores=True)
            pipe.hgetall(self.keys.announcements)
            beats, infos = pipe.execute()
        return [(name, float(beat), json.loads(infos[name])) for name, beat in beats if name in infos]

    def dead_letters(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest messages that the guard refused."""
        with self._answered():
            return [json.loads(text) for text in cast(list[str], self.redis.lrange(self.keys.dead_letters, 0, limit - 1))]


def _flat(entries: list[Any]) -> list[tuple[str, dict[str, str]]]:
    """The entries of a stream; with RESP3 they come as a list in a list."""
    return [(event, data) for batch in entries for event, data in (batch if isinstance(batch, list) else [batch])]
