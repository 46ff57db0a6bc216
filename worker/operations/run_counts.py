"""Counts of runs by status. The cost of a count does not grow with the number of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.worker.domain.run import RunStatus, status_of
from perdure.worker.errors import DamagedRun
from perdure.worker.store import Store
from perdure.worker.store.keys import INDEXES

#: Number of a submitter's newest runs that are counted. Each is read.
MOST_OF_ONE = 1000
#: Prefix of the counters of runs that no worker has begun yet: ``runs:queued:FLOW``
#: (parts/counters.lua).
QUEUED = "runs:queued:"
#: Prefix of the counters of child runs among them. Counts, like lists, leave child runs out.
QUEUED_CHILDREN = "children:queued:"


def status_counts(store: Store, submitter: str | None = None) -> dict[str, int]:
    """Return the number of runs per status. Child runs are not counted.

    Args:
        submitter: Count only the newest 1,000 runs of this submitter, without damaged runs. None:
            count the runs of all submitters.
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
    ids = [run_id for run_id, _ in store.lists.submitted(submitter, MOST_OF_ONE)]
    for fields in store.reads.many_fields(ids, ["phase", "started_at", "submitted_by"]):
        if fields.get("submitted_by") != submitter:
            continue
        try:
            counts[status_of(fields).value] += 1
        except DamagedRun:
            continue
    return counts
