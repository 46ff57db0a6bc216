"""Lists and counts from indexes, queues and due set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import cast

from perdure.worker.errors import AccessDenied
from perdure.worker.store.connection import StoreConnection
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES
from perdure.worker.store.part import StorePart
from perdure.worker.store.reads import MANY, RunFields

#: The search for a process's leases in the due set begins at runs that were due this many ms ago.
LATE_MS = 5_000
#: All scores of a sorted set.
ALWAYS = (-math.inf, math.inf)


class Queries(StorePart):
    """Lists and counts of runs (``store.lists``)."""

    def __init__(self, connection: StoreConnection, reads: RunFields) -> None:
        super().__init__(connection)
        self._reads = reads

    def listed(
        self, index: str, limit: int, after: str | None = None, oldest_first: bool = False
    ) -> list[tuple[str, float]]:
        """Return a page of an index: run ids with their times (ms), the newest first.

        Args:
            index: the name of the index.
            limit: the maximum number of entries.
            after: the cursor ``score:id`` of an entry. The page begins after this entry. None: the
                first page.
            oldest_first: return the oldest entries first.
        """
        return self.entries({self.keys.index(index): ALWAYS}, limit, after, oldest_first)

    def submitted(
        self, name: str, limit: int, after: str | None = None, oldest_first: bool = False
    ) -> list[tuple[str, float]]:
        """Return a page of a submitter's runs: run ids with their times (ms), the newest first.

        Runs that have been deleted may be among them. The other arguments are those of ``listed``.

        Args:
            name: the submitter's name.
        """
        return self.entries({self.keys.submitted(name): ALWAYS}, limit, after, oldest_first)

    def forget_submitted(self, name: str, run_ids: Sequence[str]) -> None:
        """Remove deleted runs from the index of their submitter.

        If this user of the state server may not write, nothing happens.
        """
        with suppress(AccessDenied), self._store._answered():
            self._store.redis.zrem(self.keys.submitted(name), *run_ids)

    def entries(
        self,
        spans: Mapping[str, tuple[float, float]],
        limit: int,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> list[tuple[str, float]]:
        """Return the next entries of several sorted sets, as one list ordered by score.

        Each entry is a member and its score. The list begins after the cursor. An entry that keeps
        its score between two pages is neither left out nor returned twice, even if other entries
        are added or removed. The same holds for an entry that moves from one of these sets to
        another.

        Args:
            spans: for each key, the lowest and the highest score of the entries to return.
            limit: the maximum number of entries. Fewer are returned only at the end of the list.
            after: the cursor ``score:member`` of an entry. The list begins after this entry. None:
                the first entries.
            oldest_first: begin with the lowest score. By default, begin with the highest score.
        """
        found: list[tuple[str, float]] = []
        while spans and len(found) < limit:
            count = min(limit - len(found), MANY)
            entries = self._range(spans, count, after, oldest_first)
            found += entries
            if len(entries) < count:
                break
            after = f"{entries[-1][1]}:{entries[-1][0]}"
        return found

    def _range(
        self,
        spans: Mapping[str, tuple[float, float]],
        count: int,
        after: str | None,
        oldest_first: bool,
    ) -> list[tuple[str, float]]:
        """Return entries as ``entries`` does, but in one exchange."""
        order = "oldest" if oldest_first else "newest"
        score, _, member = (after or "").partition(":")
        bounds = [str(bound) for span in spans.values() for bound in span]
        arguments: list[str | bytes | int] = [order, count, score, member, *bounds]
        with self._store._answered():
            flat = self._store._scripts["list_entries"](self._store._wire, list(spans), arguments)
        return [(flat[i], float(flat[i + 1])) for i in range(0, len(flat), 2)]

    def sizes(self, keys: Sequence[str]) -> list[int]:
        """Return the number of entries of each sorted set, in the order of ``keys``."""
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            for key in keys:
                pipe.zcard(key)
            sizes: list[int] = pipe.execute()
        return sizes

    def held_by(self, process: str) -> Iterator[tuple[str, int, int]]:
        """Yield the rounds that a process has leased: run id, epoch and step.

        Leases that ended more than ``LATE_MS`` ago are left out.

        Args:
            process: the name of the process, as ``HOST:PID``.
        """
        for run_id, fields in self._due_lately(("phase", "claim_id", "epoch", "step")):
            if fields.get("phase") == "leased" and fields.get("claim_id", "").startswith(
                f"{process}."
            ):
                yield run_id, int(fields["epoch"]), int(fields["step"])

    def passed(self) -> dict[str, tuple[str, ...]]:
        """Return queued runs whose message has probably left the queue.

        Such a message has a number that is not above the number of the newest claimed message, or
        its queue is empty. No worker has claimed the run yet. If no worker claims it within
        milliseconds, its message is lost. But the message may also have been put back at the head
        of the queue. Runs whose message was redirected are left out.

        Returns:
            Epoch, step and message number of each run, by run id.
        """
        cursors = {queue: self._cursor(queue) for queue in self.keys.queue_names}
        passed: dict[str, tuple[str, ...]] = {}
        for run_id, fields in self._due_lately(
            ("phase", "queue", "epoch", "step", "number", "handed_to")
        ):
            cursor = cursors.get(fields.get("queue", ""))
            number = fields.get("number", "")
            is_passed = cursor is not None and number.isdecimal() and int(number) <= cursor
            if is_passed and fields.get("phase") == "queued" and "handed_to" not in fields:
                passed[run_id] = fields.get("epoch", ""), fields.get("step", ""), number
        return passed

    def _cursor(self, queue: str) -> float:
        """Return the number of the newest message of a queue whose round was claimed.

        It is infinity if the queue is empty, and 0 if the stored number is missing or damaged.
        """
        with self._store._answered():
            if not self._store.redis.llen(queue):
                return math.inf
            cursor = (
                cast("str | None", self._store.redis.hget(self.keys.queues, f"{queue}:cursor"))
                or "0"
            )
            return int(cursor) if cursor.isdecimal() else 0

    def _due_lately(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the id and some fields of each run in the due set.

        Runs that were due more than ``LATE_MS`` ago are left out.

        Args:
            names: the names of the fields. Fields that a run does not have are left out.
        """
        span = {self.keys.due: (self._store.time() - LATE_MS, math.inf)}
        after: str | None = None
        while True:
            entries = self.entries(span, MANY, after, oldest_first=True)
            ids = [run_id for run_id, _ in entries]
            yield from zip(ids, self._reads.some_fields(ids, names), strict=True)
            if len(entries) < MANY:
                return
            after = f"{entries[-1][1]}:{ids[-1]}"

    def counts(self) -> dict[str, int]:
        """Return the sizes of the indexes, of the due set and of the roles' queues, by name.

        The due set has the name ``due``.
        """
        indexes = (*INDEXES, *CHILD_INDEXES)
        names = [self.keys.index(name) for name in indexes]
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            for key in (*names, self.keys.due):
                pipe.zcard(key)
            for key in self.keys.queue_names:
                pipe.llen(key)
            counts = pipe.execute()
        return dict(zip((*indexes, "due", *self.keys.queue_names), counts, strict=True))

    def interrupted_count(self) -> int:
        """Return how many runs wait for a person.

        Child runs are included.
        """
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            for name in ("interrupted", "interrupted:children"):
                pipe.zcard(self.keys.index(name))
            return sum(pipe.execute())

    def ended_counts(self, seconds: int, buckets: int) -> dict[str, list[int]]:
        """Return how many runs completed and errored in each part of a time span.

        The time span ends now. Child runs are included. The cost does not depend on the number of
        runs.

        Args:
            seconds: the length of the time span.
            buckets: the number of equal parts.

        Returns:
            The numbers for ``completed`` and for ``errored``. The oldest part is first.
        """
        now = self._store.time()
        edges = [now - seconds * 1000 * (buckets - number) // buckets for number in range(buckets)]
        edges.append(now)
        pairs = list(pairwise(edges))
        names = ("completed", "errored")
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            for name in names:
                for begin, end in pairs:
                    pipe.zcount(self.keys.index(name), f"({begin}", end)
                    pipe.zcount(self.keys.index(f"{name}:children"), f"({begin}", end)
            counts: list[int] = pipe.execute()
        sums = [own + below for own, below in zip(counts[::2], counts[1::2], strict=True)]
        return {
            name: sums[number * buckets : (number + 1) * buckets]
            for number, name in enumerate(names)
        }
