"""Reads of a tree of runs.

A tree lists some children of the same flow and status, and counts the others. A deletion needs the
ids of all runs below a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from perdure.worker.domain.record import GROUPS, Record
from perdure.worker.domain.run import Run, RunStatus, status_of
from perdure.worker.domain.run_tree import AlikeRuns, RunTree
from perdure.worker.errors import DamagedRun
from perdure.worker.store import Store

#: Maximum number of runs below the root whose status is read for a tree.
MOST_READ = 10_000
#: Runs whose status is read in one exchange.
BATCH = 500
#: The fields that tell a child's flow and status.
KIND = ("flow", "phase", "started_at")
#: The statuses of runs that have not ended.
LIVE = frozenset(status.value for status in RunStatus if not status.ended)


class TreeReader:
    """Reads one tree of runs.

    Args:
        store: the state server.
        width: the maximum number of listed children of one run, per flow and status.
    """

    def __init__(self, store: Store, width: int) -> None:
        self._store = store
        self._width = width
        self._left = MOST_READ

    def read(self, record: Record, depth: int) -> RunTree:
        """Return a run with ``depth`` generations below it.

        A child that cannot be read is counted in ``more`` with the status ``damaged``. Children of
        the deepest generation are neither read nor counted.

        Raises:
            DamagedRun: The run itself cannot be read.
        """
        run, fields = Run.of(record), record.fields
        if depth == 0:
            return RunTree(**vars(run), children=[], more=[], not_read=0)
        ids = self._store.family.children(
            run.id, fields.get("nonce", ""), fields.get(GROUPS, "").split()
        )
        read, rest = ids[: self._left], ids[self._left :]
        self._left -= len(read)
        listed, more = self._chosen(read)
        children = []
        for child in self._store.reads.records(listed):
            try:
                if child is not None:
                    children.append(self.read(Record(child), depth - 1))
            except DamagedRun:
                more[child.get("flow", "") if child else "", "damaged"] += 1
        counts = [AlikeRuns(*kind, count) for kind, count in sorted(more.items())]
        return RunTree(**vars(run), children=children, more=counts, not_read=len(rest))

    def _chosen(self, ids: list[str]) -> tuple[list[str], Counter[tuple[str, str]]]:
        """Return the ids of the children to list, and counts of the others per flow and status.

        Deleted and expired children are neither listed nor counted.
        """
        listed: list[str] = []
        kinds: Counter[tuple[str, str]] = Counter()
        for child, fields in _fields_of(self._store, ids, KIND):
            if not fields:
                continue  # deleted, or expired
            kind = _kind_of(fields)
            kinds[kind] += 1
            if kinds[kind] <= self._width:
                listed.append(child)
        more = {kind: count - self._width for kind, count in kinds.items() if count > self._width}
        return listed, Counter(more)


def _kind_of(fields: Mapping[str, str]) -> tuple[str, str]:
    try:
        return fields.get("flow", ""), status_of(fields).value
    except DamagedRun:
        return fields.get("flow", ""), "damaged"


def ids_below(store: Store, run_id: str) -> list[str]:
    """Return the ids of all runs below a run, each after the id of its parent.

    Runs that have been deleted, or have expired, are left out.
    """
    found = [run_id]
    for each in found:  # grows
        (run,) = store.reads.some_fields([each], ("nonce", GROUPS))
        ids = store.family.children(each, run.get("nonce", ""), run.get(GROUPS, "").split())
        found += [child for child, fields in _fields_of(store, ids, ("id",)) if fields]
    return found[1:]


def live_among(store: Store, ids: list[str]) -> list[tuple[str, str]]:
    """Return id and status of each run in ``ids`` that has not ended. Damaged runs are left out."""
    live = []
    for run_id, fields in _fields_of(store, ids, KIND):
        _, status = _kind_of(fields)
        if status in LIVE:
            live.append((run_id, status))
    return live


def _fields_of(
    store: Store, ids: list[str], names: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each run's id and fields, read in batches. A run that is gone has no fields."""
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        yield from zip(batch, store.reads.many_fields(batch, names), strict=True)
