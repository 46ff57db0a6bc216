"""The part of the client for runs that wait for a person."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush, merge
from itertools import groupby, islice
from typing import TYPE_CHECKING

from perdure.worker.client import validation
from perdure.worker.client.read import RunReads
from perdure.worker.domain.interrupt import Inbox, PendingInterrupt
from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run
from perdure.worker.errors import DamagedRun
from perdure.worker.presentation.text import plain

if TYPE_CHECKING:
    from perdure.worker.client.read_api import ReadApi

#: Characters of a question that an error shows.
QUESTION_SHOWN = 200
#: Number of runs of an index that are read at first, and in each further exchange.
FIRST, BATCH = 100, 1000
#: Since when a run waits (ms), and its id.
Entry = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _SomeRuns:
    """Some runs of an index.

    Attributes:
        found: each with some of its fields.
        submitted: when the last of them was submitted (ms). The others of the index were submitted
            then or later.
    """

    found: list[tuple[Entry, dict[str, str]]]
    submitted: float


class InboxReads(RunReads):
    """Finds the runs that wait for a person."""

    def inbox(
        self,
        limit: int = 50,
        cursor: str | None = None,
        submitted_by: str | None = None,
        below: str | None = None,
    ) -> Inbox:
        validation.limit(limit)
        validation.submitter(submitted_by)
        place = validation.inbox_cursor(cursor) or (-1, "")
        entries = (
            self._interrupted(submitted_by)
            if below is None
            else self._interrupted_below(self._record(below), submitted_by)
        )
        later = (entry for entry in entries if entry > place)
        waits: list[PendingInterrupt] = []
        damaged: list[str] = []
        while batch := list(islice(later, limit)):
            for entry, fields in zip(
                batch, self._store.records([run_id for _, run_id in batch]), strict=True
            ):
                # answered or deleted since the index was read
                if fields is None or fields.get("phase") != "interrupted":
                    continue
                try:
                    waiting = PendingInterrupt.of(Run.of(Record(fields)))
                except DamagedRun:
                    damaged.append(entry[1])
                    continue
                waits += [waiting] if waiting is not None else []
                if len(waits) == limit:
                    ends = entry == batch[-1] and next(later, None) is None
                    more = None if ends else f"{entry[0]}:{entry[1]}"
                    return Inbox(self._with_root_flows(waits), more, tuple(damaged))
        return Inbox(self._with_root_flows(waits), damaged=tuple(damaged))

    def _with_root_flows(self, waits: list[PendingInterrupt]) -> list[PendingInterrupt]:
        roots = sorted({waiting.root for waiting in waits if waiting.root is not None})
        if not roots:
            return waits
        read = self._store.some_fields(roots, ["flow"])
        flow_of = {run_id: fields.get("flow") for run_id, fields in zip(roots, read, strict=True)}
        return [
            waiting
            if waiting.root is None
            else replace(waiting, root_flow=flow_of[waiting.root] or None)
            for waiting in waits
        ]

    def _interrupted(self, submitted_by: str | None) -> Iterator[Entry]:
        """Yield the interrupted runs, longest wait first.

        If ``submitted_by`` is given, only that submitter's runs.
        """
        indexes = ("interrupted", "interrupted:children")
        both = merge(*(self._longest_first(index, submitted_by) for index in indexes))
        return (entry for entry, _ in groupby(both))

    def _longest_first(self, index: str, submitted_by: str | None) -> Iterator[Entry]:
        """Yield the runs of an index, longest wait first.

        The index is ordered by submission time, and no run waits since before it was submitted. So
        only as much of the index is read as was submitted before the wait of the next run began.
        """
        known: list[Entry] = []
        for runs in self._read(index, submitted_by, ()):
            for entry, _ in runs.found:
                heappush(known, entry)
            while known and known[0][0] < runs.submitted:
                yield heappop(known)
        yield from sorted(known)

    def _interrupted_below(self, record: Record, submitted_by: str | None) -> Iterator[Entry]:
        """Yield the interrupted runs of ``_interrupted`` that are below a run."""
        root = record.fields.get("root", record.id)
        above = {
            entry: fields.get("parent", "")
            for runs in self._read("interrupted:children", submitted_by, ("root", "parent"))
            for entry, fields in runs.found
            if fields.get("root") == root
        }
        found: set[Entry] = set()
        while above:  # one generation further up each time
            found |= {entry for entry, parent in above.items() if parent == record.id}
            above = {
                entry: parent
                for entry, parent in above.items()
                if parent not in ("", record.id, root)
            }
            parents = sorted(set(above.values()))
            read = self._store.some_fields(parents, ["parent"])
            parent_of = {
                run_id: fields.get("parent", "")
                for run_id, fields in zip(parents, read, strict=True)
            }
            above = {entry: parent_of[parent] for entry, parent in above.items()}
        yield from sorted(found)

    def _read(
        self, index: str, submitted_by: str | None, names: Sequence[str]
    ) -> Iterator[_SomeRuns]:
        """Yield the runs of an index, first submitted first, each with some of its fields."""
        asked = ["updated_at", *names, *(() if submitted_by is None else ("submitted_by",))]
        cursor, count = None, FIRST
        while True:
            listed = self._store.listed(index, count, cursor, oldest_first=True)
            read = self._store.many_fields([run_id for run_id, _ in listed], asked)
            found = [
                ((max(int(submitted), _ms(fields.get("updated_at", ""))), run_id), fields)
                for (run_id, submitted), fields in zip(listed, read, strict=True)
                if submitted_by in (None, fields.get("submitted_by"))
            ]
            if len(listed) < count:
                yield _SomeRuns(found, math.inf)
                return
            yield _SomeRuns(found, listed[-1][1])
            cursor, count = f"{listed[-1][1]}:{listed[-1][0]}", BATCH


def asked_below(client: ReadApi, run: Run) -> str:
    """Return the end of a sentence that leads to what the child runs of a run ask a person."""
    if not run.details.get("waits_for_children"):
        return ""
    asked = client.inbox(1, below=run.id).waiting
    if not asked:
        return ". It waits for its child runs"
    waiting = asked[0]
    return (
        f". It waits for its child runs, and run {waiting.run_id} ({waiting.flow}) below it asks a "
        f"person: {plain(waiting.question, QUESTION_SHOWN)} To answer: {waiting.how_in_one_line()}"
    )


def _ms(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0
