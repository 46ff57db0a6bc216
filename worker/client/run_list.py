"""Pages of runs by time, and counts of runs by status.

Pages come from the indexes of statuses or of a submitter. The cost of the counts does not grow with
the number of runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perdure.worker.client import validation
from perdure.worker.client.validation import ALL, OWN
from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Page, Run, RunStatus, status_of
from perdure.worker.errors import DamagedRun
from perdure.worker.store import Store
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES

#: Number of a submitter's newest runs that are counted. Each of them is read.
MOST_OF_ONE = 1000
#: Prefix of the counters of runs that no worker has begun yet: ``runs:queued:FLOW``
#: (parts/counters.lua).
QUEUED = "runs:queued:"
#: Prefix of the counters of child runs among them. Counts, like lists, leave child runs out.
QUEUED_CHILDREN = "children:queued:"


def status_counts(store: Store, submitter: str | None = None) -> dict[str, int]:
    """Return how many runs have each status. Child runs are not counted.

    If a submitter is given, only the newest 1,000 runs of that submitter are counted.
    """
    return _of_all(store) if submitter is None else _of_one(store, submitter)


def _of_all(store: Store) -> dict[str, int]:
    with store._answered(), store.redis.pipeline(transaction=False) as pipe:
        pipe.hgetall(store.keys.queues)
        for index in INDEXES:
            pipe.zcard(store.keys.index(index))
        replies: list[Any] = pipe.execute()
    sizes = dict(zip(INDEXES, replies[1:], strict=True))
    live = sizes.pop("live")
    counted = _sum_of(replies[0], QUEUED) - _sum_of(replies[0], QUEUED_CHILDREN)
    queued = min(live, max(0, counted))
    return {"queued": queued, "running": live - queued, **sizes}


def _sum_of(counters: Mapping[str, str], prefix: str) -> int:
    return sum(
        int(text)
        for name, text in counters.items()
        if name.startswith(prefix) and text.lstrip("-").isdecimal()
    )


def _of_one(store: Store, submitter: str) -> dict[str, int]:
    counts = {status.value: 0 for status in RunStatus}
    ids = [run_id for run_id, _ in store.submitted(submitter, MOST_OF_ONE)]
    for fields in store.some_fields(ids, ["phase", "started_at", "submitted_by"]):
        if fields.get("submitted_by") != submitter:
            continue
        try:
            counts[status_of(fields).value] += 1
        except DamagedRun:
            continue
    return counts


#: Position before all entries of an index: later than any clock.
BEGIN = f"{10**15 - 1}.0:-"
#: Fields that a page leaves out because they are long. Reading the run itself returns them.
LEFT_OUT = ("traceback",)


@dataclass(frozen=True)
class RunFilter:
    """Filter for a list of runs."""

    status: RunStatus | None = None
    flow: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    submitted_by: str | None = None
    children: bool = False  # child runs too
    thread_id: str | None = None

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of the Redis indexes that list the runs which match this filter."""
        if self.submitted_by is not None and not self.children:
            return (OWN,)
        chosen: tuple[str, ...] = INDEXES
        if self.status is not None:
            is_live = self.status in (RunStatus.QUEUED, RunStatus.RUNNING)
            chosen = ("live" if is_live else self.status.value,)
        if self.children:
            chosen += tuple(CHILD_INDEXES[INDEXES.index(name)] for name in chosen)
        return chosen

    @property
    def order(self) -> str:
        """The name of the order in which matching runs are listed. A page's cursor carries it."""
        return self.indexes[0] if len(self.indexes) == 1 else ALL

    def fits(self, fields: Mapping[str, str]) -> bool:
        """Return whether a run, given as the fields of its hash, matches this filter.

        Raises:
            DamagedRun: A field of the run cannot be read.
        """
        if self.flow is not None and fields.get("flow") != self.flow:
            return False
        if self.submitted_by is not None and fields.get("submitted_by") != self.submitted_by:
            return False
        if self.thread_id is not None and fields.get("thread_id") != self.thread_id:
            return False
        if self.status is not None and status_of(fields) is not self.status:
            return False
        return not self.labels or self.labels.items() <= Record(fields).mapping("labels").items()


def list_runs(
    store: Store,
    wanted: RunFilter,
    limit: int,
    look: int | None,
    place: tuple[str, str] | None,
    cursor: str | None,
) -> Page:
    """Return one page of the runs that match a filter, newest first.

    Several indexes are merged by time, so a run that has just failed comes before older ones.

    Args:
        wanted: The filter.
        limit: Maximum number of runs on the page.
        look: Maximum number of runs to read. None means no maximum.
        place: An order and the position in it. None means the beginning.
        cursor: The cursor as the caller passed it, for the error text.
    """
    order, before = place or (wanted.order, "")
    if order != wanted.order:
        raise validation.wrong("cursor", "that of a page of the same status and submitter", cursor)
    own = wanted.submitted_by if wanted.indexes == (OWN,) else None
    merged = MergedRuns(store, wanted.indexes, own, before or None)
    matching: list[Run] = []
    damaged: list[str] = []
    read_count, last = 0, before or BEGIN
    while True:
        batch = limit if look is None else min(limit, look - read_count)
        if batch <= 0:
            return Page(matching, f"{order}|{last}", tuple(damaged))
        listed = merged.take(batch)
        read_count += len(listed)
        gone = []
        for (run_id, score), fields in zip(
            listed, store.records([run_id for run_id, _ in listed]), strict=True
        ):
            last = f"{score}:{run_id}"
            if fields is None:
                gone.append(run_id)
                continue
            try:
                if wanted.fits(fields):
                    matching.append(
                        Run.of(
                            Record(
                                {
                                    name: text
                                    for name, text in fields.items()
                                    if name not in LEFT_OUT
                                }
                            )
                        )
                    )
            except DamagedRun:
                damaged.append(run_id)
            if len(matching) == limit:
                return Page(matching, f"{order}|{last}", tuple(damaged))
        if gone and own is not None:
            store.forget_submitted(own, gone)
        if len(listed) < batch:
            return Page(matching, damaged=tuple(damaged))


class MergedRuns:
    """The entries of several indexes as one list, newest first.

    Each index is read in batches.

    Args:
        before: Return only entries after this position ("score:id") of the list.
    """

    def __init__(
        self, store: Store, indexes: tuple[str, ...], submitter: str | None, before: str | None
    ) -> None:
        self._store = store
        self._submitter = submitter
        self._read: dict[str, deque[tuple[str, float]]] = {name: deque() for name in indexes}
        self._ends: dict[str, str | None] = dict.fromkeys(indexes, before)
        self._taken: set[str] = set()

    def take(self, count: int) -> list[tuple[str, float]]:
        """Return the next ``count`` runs of the merged indexes, as pairs of run id and score.

        Fewer are returned only at the end. A run that moved between two indexes in the meantime
        comes once.
        """
        taken: list[tuple[str, float]] = []
        while len(taken) < count:
            for name in [name for name, entries in self._read.items() if not entries]:
                self._read_batch(name, count)
            if not self._read:
                break
            name = max(self._read, key=self._head)
            run_id, score = self._read[name].popleft()
            if run_id not in self._taken:
                self._taken.add(run_id)
                taken.append((run_id, score))
        return taken

    def _head(self, name: str) -> tuple[float, str]:
        run_id, score = self._read[name][0]
        return score, run_id

    def _read_batch(self, name: str, count: int) -> None:
        end = self._ends[name]
        entries = (
            self._store.listed(name, count, end)
            if self._submitter is None
            else self._store.submitted(self._submitter, count, end)
        )
        if entries:
            run_id, score = entries[-1]
            self._ends[name] = f"{score}:{run_id}"
            self._read[name].extend(entries)
        else:
            del self._read[name]
