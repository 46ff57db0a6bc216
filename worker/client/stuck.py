"""The client part for stuck runs and for the queues.

It reads a bounded number of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from perdure.flows.core.names import Role
from perdure.worker.client import validation
from perdure.worker.client.api import ClientApi
from perdure.worker.client.read import RunReads
from perdure.worker.diagnostics.run_case import number
from perdure.worker.diagnostics.why import verdict_of
from perdure.worker.domain.fleet import DeadLetter, QueueInfo, WorkerInfo
from perdure.worker.domain.verdict import MOVING, Verdict, VerdictCode
from perdure.worker.store.lookups import (
    QueueLength,
    due_first,
    lines,
    lines_of_sets,
    look_at_all,
    oldest,
    queues_of_sets,
)

#: Number of runs read in one exchange: each may have large inputs.
AT_ONCE = 25
#: Runs of each index that are searched for one submitter's: about 4 ms of the server.
LOOKED_AT = 2_000


class StuckRuns(RunReads, ClientApi):
    """Finds runs that are stuck."""

    def stuck(self, limit: int = 50, submitted_by: str | None = None) -> list[Verdict]:
        validation.limit(limit)
        validation.submitter(submitted_by)
        # The runs of other submitters must not hide this submitter's runs.
        count = limit if submitted_by is None else max(limit, LOOKED_AT)
        sources = [
            due_first(self._store, count),
            oldest(self._store, "live", count),
            oldest(self._store, "live:children", count),
            [run_id for run_id, _ in self._store.lists.listed("errored", count)],
        ]
        chosen: dict[str, None] = {}
        for source in sources:
            own = source if submitted_by is None else self._of(submitted_by, source)
            chosen |= dict.fromkeys(own[:limit])
        ids = list(chosen)
        lengths = self._connection.publisher.lengths() if self._store.outbox else None
        verdicts = (
            verdict_of(snapshot, self.settings)
            for begin in range(0, len(ids), AT_ONCE)
            for snapshot in look_at_all(self._store, ids[begin : begin + AT_ONCE], lengths).values()
        )
        return [verdict for verdict in verdicts if _stands_still(verdict)]

    def _of(self, submitter: str, run_ids: Sequence[str]) -> list[str]:
        """Return the runs of a submitter among others."""
        read = self._store.reads.many_fields(run_ids, ["submitted_by"])
        pairs = zip(run_ids, read, strict=True)
        return [run_id for run_id, fields in pairs if fields.get("submitted_by") == submitter]

    def queues(self) -> list[QueueInfo]:
        now = self._store.time()
        workers = [WorkerInfo(*each) for each in self._store.fleet.workers()]
        sets = queues_of_sets(self._store.keys, workers, now, self.settings.heartbeat_seconds)
        lengths = self._connection.publisher.lengths(sets) if self._store.outbox else None
        of_sets = lines_of_sets(self._store, sets, lengths)
        return [
            self._seen(line, [each for each in of_sets if each.role == line.role], now)
            for line in lines(self._store, lengths)
        ]

    def dead_letters(self, limit: int = 20) -> list[DeadLetter]:
        validation.limit(limit)
        return cast(list[DeadLetter], self._store.fleet.dead_letters(limit))

    def _seen(self, line: QueueLength, of_sets: list[QueueLength], now: int) -> QueueInfo:
        pushed, taken = (int(number(text) or 0) for text in (line.pushed, line.taken))
        waits = [self._waited(each, now) for each in (line, *of_sets)]
        length, handed_on = line.length, None
        if length is not None:
            handed_on = sum(each.length or 0 for each in of_sets)
            length += handed_on
        return QueueInfo(
            cast(Role, line.role),
            line.queue,
            length,
            pushed,
            taken,
            max((wait for wait in waits if wait is not None), default=None),
            handed_on,
        )

    def _waited(self, line: QueueLength, now: int) -> float | None:
        """Return the seconds that a queue's next run has waited.

        Returns:
            The seconds since the run of the queue's next message was queued. None if they are not
            known: the queue is empty, its next message is invalid, or the run has no time of
            queueing.
        """
        from perdure.worker.messaging.message import InvalidMessage, stored_round

        if line.next is None:
            return None
        try:
            run_id, _, _ = stored_round(line.next, self._store.keys.queue(line.role))
        except InvalidMessage:
            return None
        (fields,) = self._store.reads.some_fields([run_id], ["queued_at"])
        since = number(fields.get("queued_at"))
        return None if since is None else max(0.0, (now - since) / 1000)


def _stands_still(verdict: Verdict) -> bool:
    if verdict.code is VerdictCode.ENDED:
        return verdict.details.get("status") == "errored"
    return verdict.code not in MOVING
