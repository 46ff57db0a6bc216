"""Reading: look at runs, one or many, once or as they go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from flows.extras import FEEDBACK, public
from worker.client import arguments
from worker.client.connection import Connected, not_found
from worker.client.listing import Page, Wanted, list_runs
from worker.client.tally import status_counts
from worker.errors import ArtifactNotFound
from worker.event import LAST, Event
from worker.record import Record, unpack_turns
from worker.run import Run, RunStatus, status_of
from worker.store.keys import INDEXES
from worker.store.looking import look
from worker.verdict import Verdict
from worker.why import verdict_of

#: How long one wait for new events lasts before the caller's patience is looked at again.
EVENT_BLOCK = 1.0
#: Ids of one index that are looked through for one that was shortened.
MOST_IDS = 10_000


class Reading(Connected):
    """Changes nothing."""

    def get(self, run_id: str) -> Run:
        """The run as it is now; raises RunNotFound, DamagedRun."""
        return Run.of(self._record(run_id))

    def runs(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        submitted_by: str | None = None,
        look: int | None = None,
    ) -> Page:
        """Runs, newest first, some at a time; ``cursor`` continues where a page of the same status and submitter ended.

        A completed or errored run stands at the time of its end, every other one at the time of its submission.

        Args:
            labels: only runs with these. submitted_by: only runs of this submitter, whatever their status in order of their submission.
            look: at most so many runs are looked at: a page may then hold fewer than ``limit``, or none, and yet have a cursor.
        """
        arguments.limit(limit)
        arguments.optional_texts(flow=flow)
        arguments.mapping(labels, "labels", of_texts=True)
        arguments.submitter(submitted_by)
        arguments.look(look)
        wanted, place = arguments.status(status), arguments.cursor(cursor)
        return list_runs(self._store, Wanted(wanted, flow, labels or {}, submitted_by), limit, look, place, cursor)

    def ids_beginning(self, text: str) -> list[str]:
        """Return the ids that begin with ``text``, of the newest 10,000 runs of each index; nothing else is looked at."""
        arguments.text(text, "text")
        found = [run_id for index in INDEXES for run_id, _ in self._store.listed(index, MOST_IDS) if run_id.startswith(text)]
        return list(dict.fromkeys(found))

    def status_counts(self, submitted_by: str | None = None) -> dict[str, int]:
        """Return how many runs there are of each status; of one submitter, among their newest 1,000."""
        arguments.submitter(submitted_by)
        return status_counts(self._store, submitted_by)

    def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:
        """The run once it has ended (completed, errored, stopped) or is interrupted.

        Raises:
            TimeoutError: it has not within ``timeout`` seconds; the run goes on.
        """
        timeout = arguments.timeout(timeout)
        patience = None if timeout is None else time.monotonic() + timeout
        last: str | None = None
        while True:
            run = self.get(run_id)
            if run.status.ended or run.status is RunStatus.INTERRUPTED:
                return run
            left = EVENT_BLOCK if patience is None else min(EVENT_BLOCK, patience - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"run {run_id} is still {run.status.value} at step {run.state.step} after {timeout:g} s; it goes on")
            entries = self._store.events(run_id, last, block=max(1, round(left * 1000)))
            last = entries[-1][0] if entries else last

    def events(self, run_id: str, after: str | None = None, follow: bool = True) -> Iterator[Event]:
        """What happened to the run, oldest first, from just behind the event ``after``.

        With ``follow`` it goes on until the run has ended; without, it ends with what there is. Raises RunNotFound.
        """
        arguments.after(after)
        arguments.flag(follow, "follow")
        self._record(run_id)
        return self._events(run_id, after, follow)

    def latest_events(self, run_id: str, limit: int = 100, before: str | None = None) -> list[Event]:
        """What happened to the run last (before the event ``before``), oldest first; raises RunNotFound."""
        arguments.limit(limit)
        arguments.after(before, "before")
        self._record(run_id)
        return [Event.of(*entry) for entry in self._store.latest_events(run_id, limit, before)]

    def _events(self, run_id: str, after: str | None, follow: bool) -> Iterator[Event]:
        ended, last = False, after
        while True:
            entries = self._store.events(run_id, last, block=None if ended or not follow else round(EVENT_BLOCK * 1000))
            for last, entry in entries:
                event = Event.of(last, entry)
                yield event
                ended = event.type in LAST
            if entries:
                continue
            if not follow or ended:
                return
            fields = self._store.fields(run_id)
            ended = fields is None or status_of(fields).ended

    def transcript(self, run_id: str) -> dict[str, Any]:
        """The whole run as JSON data: ``run`` (with the ``options`` and named ``values`` it has), ``history`` and ``events``.

        Of a run that goes on, run and history are those of one step; the events may go beyond it.
        """
        record = self._record(run_id)
        run = {**Run.of(record).to_dict(), "options": _options(record), "values": public(record.values)}
        turns = unpack_turns(run_id, self._store.memory(run_id))[: record.turns]
        history = [
            {
                "command": turn.command and {"name": turn.command.name, "args": dict(turn.command.args), **public(turn.command.extras)},
                "observation": turn.observation,
                **({"human_feedback": turn.command.extras[FEEDBACK]} if turn.command and FEEDBACK in turn.command.extras else {}),
            }
            for turn in turns
        ]
        return {"run": run, "history": history, "events": [event.to_dict() for event in self.events(run_id, follow=False)]}

    def artifacts(self, run_id: str) -> dict[str, int]:
        """The names of what the run keeps whole beside its history, each with its size in bytes; raises RunNotFound."""
        self._record(run_id)
        return self._store.artifacts(run_id)

    def artifact(self, run_id: str, name: str) -> str:
        """One of them; raises RunNotFound, and ArtifactNotFound naming those there are."""
        arguments.text(name, "name")
        self._record(run_id)
        text = self._store.artifact(run_id, name)
        if text is None:
            known = ", ".join(self._store.artifacts(run_id))
            raise ArtifactNotFound(f"run {run_id} has no artifact {name!r}; {f'it has {known}' if known else 'it has none'}")
        return text

    def why(self, run_id: str) -> Verdict:
        """Why the run is where it is: one code, one sentence, since when; raises RunNotFound."""
        lengths = self._engine.dispatcher.lengths() if self._store.outbox else None
        standing = look(self._store, run_id, lengths) if arguments.is_run_id(run_id) else None
        if standing is None:
            raise not_found(run_id)
        return verdict_of(standing, self.settings)


def _options(record: Record) -> dict[str, Any]:
    """What was submitted beside goal and inputs."""
    options = {name: record.json(name, []) for name in ("interrupt_before", "interrupt_after")}
    return {**options, "max_rounds": record.max_rounds, "idempotency_key": record.fields.get("idem")}
