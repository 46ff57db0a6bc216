"""Counts of runs by status, at a cost that does not grow with their number."""

from __future__ import annotations

from typing import Any

from worker.errors import DamagedRun
from worker.run import RunStatus, status_of
from worker.store import Store
from worker.store.keys import INDEXES

#: Of one submitter only this many runs, the newest, are counted: each of them is read.
MOST_OF_ONE = 1000
#: The counter of runs that no worker has begun yet: ``runs:queued:FLOW`` (counting.lua).
QUEUED = "runs:queued:"


def status_counts(store: Store, submitter: str | None = None) -> dict[str, int]:
    """Return how many runs there are of each status; of one submitter, among their newest 1,000."""
    return _of_all(store) if submitter is None else _of_one(store, submitter)


def _of_all(store: Store) -> dict[str, int]:
    with store._answered(), store.redis.pipeline(transaction=False) as pipe:
        pipe.hgetall(store.keys.queues)
        for index in INDEXES:
            pipe.zcard(store.keys.index(index))
        found: list[Any] = pipe.execute()
    sizes = dict(zip(INDEXES, found[1:], strict=True))
    live = sizes.pop("live")
    counted = sum(int(text) for name, text in found[0].items() if name.startswith(QUEUED) and text.lstrip("-").isdecimal())
    queued = min(live, max(0, counted))
    return {"queued": queued, "running": live - queued, **sizes}


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
