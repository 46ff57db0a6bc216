"""Listing: pages of runs, from the index of a status or of a submitter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.client import arguments
from worker.client.arguments import OWN
from worker.errors import DamagedRun
from worker.record import Record
from worker.run import Run, RunStatus, status_of
from worker.store import Store
from worker.store.keys import INDEXES

#: Before all that an index holds: later than any clock.
BEGIN = f"{10**15 - 1}.0:-"


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
        """Where they are listed, in the order in which they are shown."""
        if self.submitted_by is not None:
            return (OWN,)
        if self.status is None:
            return INDEXES
        return ("live" if self.status in (RunStatus.QUEUED, RunStatus.RUNNING) else self.status.value,)

    def fits(self, fields: Mapping[str, str]) -> bool:
        """Whether the run of this hash is one; raises DamagedRun where that does not read."""
        if self.flow is not None and fields.get("flow") != self.flow:
            return False
        if self.submitted_by is not None and fields.get("submitted_by") != self.submitted_by:
            return False
        if self.status is not None and status_of(fields) is not self.status:
            return False
        return not self.labels or self.labels.items() <= Record(fields).mapping("labels").items()


def list_runs(store: Store, wanted: Wanted, limit: int, look: int | None, place: tuple[str, str] | None, cursor: str | None) -> Page:
    """At most ``limit`` runs, from ``place`` (an index, and where in it) on, having looked at no more than ``look``."""
    position, before = place or (wanted.indexes[0], "")
    if position not in wanted.indexes:
        raise arguments.wrong("cursor", "that of a page of the same status and submitter", cursor)
    found: list[Run] = []
    damaged: list[str] = []
    looked = 0
    for name in wanted.indexes[wanted.indexes.index(position) :]:
        last, before = before or None, ""
        while True:
            batch = limit if look is None else min(limit, look - looked)
            if batch <= 0:
                return Page(found, f"{name}|{last or BEGIN}", tuple(damaged))
            listed = (
                store.submitted(wanted.submitted_by, batch, last) if wanted.submitted_by is not None else store.listed(name, batch, last)
            )
            looked += len(listed)
            gone = []
            for (run_id, score), fields in zip(listed, store.records([run_id for run_id, _ in listed]), strict=True):
                last = f"{score}:{run_id}"
                if fields is None:
                    gone.append(run_id)
                    continue
                try:
                    if wanted.fits(fields):
                        found.append(Run.of(Record(fields)))
                except DamagedRun:
                    damaged.append(run_id)
                if len(found) == limit:
                    return Page(found, f"{name}|{last}", tuple(damaged))
            if gone and wanted.submitted_by is not None:
                store.forget_submitted(wanted.submitted_by, gone)
            if len(listed) < batch:
                break
    return Page(found, damaged=tuple(damaged))
