"""Listing: pages of runs by time, from the indexes of their statuses or of their submitter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.client import arguments
from worker.client.arguments import ALL, OWN
from worker.errors import DamagedRun
from worker.record import Record
from worker.run import Run, RunStatus, status_of
from worker.store import Store
from worker.store.keys import INDEXES

#: Before all that an index holds: later than any clock.
BEGIN = f"{10**15 - 1}.0:-"
#: Fields of a run that a page leaves out: they are long, and a look at the run itself has them.
LEFT_OUT = ("traceback",)


@dataclass(frozen=True)
class Page:
    """Some runs, and the cursor that continues after them (None at the end); ``damaged`` names runs that do not read."""

    runs: list[Run]
    cursor: str | None = None
    damaged: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Page:
        """The page that ``to_dict`` told of; raises KeyError, ValueError where something is missing or cannot be."""
        return cls([Run.from_dict(each) for each in data["runs"]], data["cursor"], tuple(data["damaged"]))

    def to_dict(self) -> dict[str, Any]:
        """The page as JSON data."""
        return {"runs": [each.to_dict() for each in self], "cursor": self.cursor, "damaged": list(self.damaged)}


@dataclass(frozen=True)
class Wanted:
    """Which runs are looked for."""

    status: RunStatus | None = None
    flow: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    submitted_by: str | None = None

    @property
    def indexes(self) -> tuple[str, ...]:
        """The indexes that list them."""
        if self.submitted_by is not None:
            return (OWN,)
        if self.status is None:
            return INDEXES
        return ("live" if self.status in (RunStatus.QUEUED, RunStatus.RUNNING) else self.status.value,)

    @property
    def order(self) -> str:
        """The name of the order in which they are listed, which a page's cursor carries."""
        return self.indexes[0] if len(self.indexes) == 1 else ALL

    def fits(self, fields: Mapping[str, str]) -> bool:
        """Whether the run of this hash is one; raises DamagedRun where that does not read."""
        if self.flow is not None and fields.get("flow") != self.flow:
            return False
        if self.submitted_by is not None and fields.get("submitted_by") != self.submitted_by:
            return False
        if self.status is not None and status_of(fields) is not self.status:
            return False
        return not self.labels or self.labels.items() <= Record(fields).mapping("labels").items()


def list_runs(
    store: Store,
    wanted: Wanted,
    limit: int,
    look: int | None,
    place: tuple[str, str] | None,
    cursor: str | None,
) -> Page:
    """Return at most ``limit`` runs, newest first, from ``place`` (an order, and where in it) on.

    At most ``look`` runs are read. Several indexes are merged by their times, so a run that has just failed comes before older ones.
    """
    order, before = place or (wanted.order, "")
    if order != wanted.order:
        raise arguments.wrong("cursor", "that of a page of the same status and submitter", cursor)
    merged = Merged(store, wanted.indexes, wanted.submitted_by, before or None)
    found: list[Run] = []
    damaged: list[str] = []
    looked, last = 0, before or BEGIN
    while True:
        batch = limit if look is None else min(limit, look - looked)
        if batch <= 0:
            return Page(found, f"{order}|{last}", tuple(damaged))
        listed = merged.take(batch)
        looked += len(listed)
        gone = []
        for (run_id, score), fields in zip(listed, store.records([run_id for run_id, _ in listed]), strict=True):
            last = f"{score}:{run_id}"
            if fields is None:
                gone.append(run_id)
                continue
            try:
                if wanted.fits(fields):
                    found.append(Run.of(Record({name: text for name, text in fields.items() if name not in LEFT_OUT})))
            except DamagedRun:
                damaged.append(run_id)
            if len(found) == limit:
                return Page(found, f"{order}|{last}", tuple(damaged))
        if gone and wanted.submitted_by is not None:
            store.forget_submitted(wanted.submitted_by, gone)
        if len(listed) < batch:
            return Page(found, damaged=tuple(damaged))


class Merged:
    """The entries of several indexes as one list, newest first; each index is read a batch at a time.

    Args:
        before: only entries behind this place ("score:id").
    """

    def __init__(self, store: Store, indexes: tuple[str, ...], submitter: str | None, before: str | None) -> None:
        self._store = store
        self._submitter = submitter
        self._read: dict[str, deque[tuple[str, float]]] = {name: deque() for name in indexes}
        self._ends: dict[str, str | None] = dict.fromkeys(indexes, before)
        self._taken: set[str] = set()

    def take(self, count: int) -> list[tuple[str, float]]:
        """Return the next ``count`` entries; fewer only at the end. A run that moved between two indexes meanwhile comes once."""
        found: list[tuple[str, float]] = []
        while len(found) < count:
            for name in [name for name, entries in self._read.items() if not entries]:
                self._fetch(name, count)
            if not self._read:
                break
            name = max(self._read, key=self._head)
            run_id, score = self._read[name].popleft()
            if run_id not in self._taken:
                self._taken.add(run_id)
                found.append((run_id, score))
        return found

    def _head(self, name: str) -> tuple[float, str]:
        run_id, score = self._read[name][0]
        return score, run_id

    def _fetch(self, name: str, count: int) -> None:
        end = self._ends[name]
        entries = self._store.listed(name, count, end) if self._submitter is None else self._store.submitted(self._submitter, count, end)
        if entries:
            run_id, score = entries[-1]
            self._ends[name] = f"{score}:{run_id}"
            self._read[name].extend(entries)
        else:
            del self._read[name]
