"""The part of the client for runs that wait for a person."""

from __future__ import annotations

from perdure.worker.client import validation
from perdure.worker.client.read import RunReads
from perdure.worker.domain.interrupt import Inbox, PendingInterrupt
from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run
from perdure.worker.errors import DamagedRun

#: Number of runs that are read in one exchange.
BATCH = 1000


class InboxReads(RunReads):
    """Finds the runs that wait for a person."""

    def inbox(
        self, limit: int = 50, cursor: str | None = None, submitted_by: str | None = None
    ) -> Inbox:
        validation.limit(limit)
        validation.submitter(submitted_by)
        place = validation.inbox_cursor(cursor) or (-1, "")
        later = [entry for entry in self._interrupted(submitted_by) if entry > place]
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
                    more = entry != later[-1]
                    return Inbox(waits, f"{entry[0]}:{entry[1]}" if more else None, tuple(damaged))
        return Inbox(waits, damaged=tuple(damaged))

    def _interrupted(self, submitted_by: str | None) -> list[tuple[int, str]]:
        """Return all interrupted runs, longest wait first.

        Each entry is the time (ms) at which the run began to wait, and the run's id. If
        ``submitted_by`` is given, only that submitter's runs are returned. All runs are read,
        because the index is ordered by submission time.
        """
        entries: list[tuple[int, str]] = []
        for index in ("interrupted", "interrupted:children"):
            last: str | None = None
            while True:
                listed = self._store.listed(index, BATCH, last)
                ids = [run_id for run_id, _ in listed]
                since = self._store.some_fields(ids, ["updated_at", "submitted_by"])
                entries += [
                    (_ms(fields.get("updated_at", "")), run_id)
                    for run_id, fields in zip(ids, since, strict=True)
                    if submitted_by in (None, fields.get("submitted_by"))
                ]
                if len(listed) < BATCH:
                    break
                last = f"{listed[-1][1]}:{ids[-1]}"
        return sorted(set(entries))


def _ms(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0
