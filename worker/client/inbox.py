"""The part of the client for runs that wait for a person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from perdure.worker.client import validation
from perdure.worker.client.api import ClientApi
from perdure.worker.client.read import RunReads
from perdure.worker.domain.interrupt import Inbox, PendingInterrupt
from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run
from perdure.worker.errors import DamagedRun
from perdure.worker.presentation.text import plain

#: Characters of a question that an error shows.
QUESTION_SHOWN = 200
#: Number of ids of waiting runs that are read at once, and in each further exchange.
FIRST, BATCH = 10_000, 1000


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
        later = [entry for entry in entries if entry > place]
        waits: list[PendingInterrupt] = []
        damaged: list[str] = []
        for begin in range(0, len(later), limit):
            batch = later[begin : begin + limit]
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
                    more = f"{entry[0]}:{entry[1]}" if entry != later[-1] else None
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

    def _interrupted(self, submitted_by: str | None) -> list[tuple[int, str]]:
        """Return all interrupted runs, longest wait first.

        Each entry is the time (ms) at which the run began to wait, and the run's id. If
        ``submitted_by`` is given, only that submitter's runs are returned. All runs are read,
        because the index is ordered by submission time.
        """
        entries = [
            entry
            for index in ("interrupted", "interrupted:children")
            for entry, _ in self._listed(index, submitted_by)
        ]
        return sorted(set(entries))

    def _interrupted_below(self, record: Record, submitted_by: str | None) -> list[tuple[int, str]]:
        """Return the interrupted runs of ``_interrupted`` that are below a run."""
        root = record.fields.get("root", record.id)
        above = {
            entry: fields.get("parent", "")
            for entry, fields in self._listed("interrupted:children", submitted_by)
            if fields.get("root") == root
        }
        found: set[tuple[int, str]] = set()
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
        return sorted(found)

    def _listed(
        self, index: str, submitted_by: str | None
    ) -> Iterator[tuple[tuple[int, str], dict[str, str]]]:
        """Yield each run of an index as an entry of ``_interrupted``, with its place in a tree."""
        ids, cursor = self._store.newest(index, FIRST)
        while True:
            read = self._store.many_fields(ids, ["updated_at", "submitted_by", "root", "parent"])
            for run_id, fields in zip(ids, read, strict=True):
                if submitted_by in (None, fields.get("submitted_by")):
                    yield (_ms(fields.get("updated_at", "")), run_id), fields
            if cursor is None:
                return
            listed = self._store.listed(index, BATCH, cursor)
            ids = [run_id for run_id, _ in listed]
            cursor = f"{listed[-1][1]}:{ids[-1]}" if len(listed) == BATCH else None


def asked_below(client: ClientApi, run: Run) -> str:
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
