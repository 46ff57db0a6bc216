"""Standstill: what does not move by itself, and the queues in which the rest waits. A look at a bounded number of runs."""

from __future__ import annotations

from typing import Any

from worker.client import arguments
from worker.client.reading import Reading
from worker.errors import RunNotFound
from worker.queues import QueueSeen
from worker.store.lines import Line, due_first, lines, oldest
from worker.verdict import Verdict, VerdictCode
from worker.why.case import number

#: What mends itself, or is as it should be.
MOVING = (
    VerdictCode.IN_LINE,
    VerdictCode.LEASED,
    VerdictCode.SLEEPING,
    VerdictCode.WAITING_FOR_A_PERSON,
    VerdictCode.HELD_AFTER_STOP_NOW,
    VerdictCode.MESSAGE_LOST,
)


class Standstill(Reading):
    """Looks for what is stuck."""

    def stuck(self, limit: int = 50, submitted_by: str | None = None) -> list[Verdict]:
        """Why runs stand still that nobody waits for on purpose: no worker for them, damaged, paused, lost again and again, errored.

        Looked at are the ``limit`` runs that are due first, as many that have lived longest, and as many that errored last; so it costs
        the same however many runs there are. ``details["run"]`` names each verdict's run.
        """
        arguments.limit(limit)
        arguments.submitter(submitted_by)
        live = dict.fromkeys([*due_first(self._store, limit), *oldest(self._store, "live", limit)])
        errored = [run_id for run_id, _ in self._store.listed("errored", limit)]
        ids = list(dict.fromkeys([*live, *errored]))
        whose = self._store.some_fields(ids, ["submitted_by"])
        found = []
        for run_id, fields in zip(ids, whose, strict=True):
            if submitted_by not in (None, fields.get("submitted_by")):
                continue
            try:
                verdict = self.why(run_id)
            except RunNotFound:  # since it was listed
                continue
            if _stands_still(verdict):
                found.append(verdict)
        return found

    def queues(self) -> list[QueueSeen]:
        """The broker's queues: their lengths, and how long the next message's run has waited."""
        lengths = self._engine.dispatcher.lengths() if self._store.outbox else None
        now = self._store.time()
        return [self._seen(line, now) for line in lines(self._store, lengths)]

    def dead_letters(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest messages that workers refused: ``at`` (s since 1970), ``list``, ``why``, ``bytes``, ``message`` (its beginning)."""
        arguments.limit(limit)
        return self._store.dead_letters(limit)

    def _seen(self, line: Line, now: int) -> QueueSeen:
        pushed, taken = (int(number(text) or 0) for text in (line.pushed, line.taken))
        return QueueSeen(line.role, line.queue, line.length, pushed, taken, self._waited(line, now))

    def _waited(self, line: Line, now: int) -> float | None:
        """Seconds that the run of the queue's next message has waited for it."""
        from worker.guard.sifting import Malformed, stored_round

        if line.next is None:
            return None
        try:
            run_id, _, _ = stored_round(line.next, line.queue)
        except Malformed:
            return None
        (fields,) = self._store.some_fields([run_id], ["queued_at"])
        since = number(fields.get("queued_at"))
        return None if since is None else max(0.0, (now - since) / 1000)


def _stands_still(verdict: Verdict) -> bool:
    if verdict.code is VerdictCode.ENDED:
        return verdict.details.get("status") == "errored"
    return verdict.code not in MOVING
