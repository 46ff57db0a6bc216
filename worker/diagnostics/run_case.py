"""RunCase: one read of a run, with helpers for all verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from perdure.flows.core.durations import duration
from perdure.worker.domain.fleet import RunSnapshot, WorkerInfo
from perdure.worker.domain.record import MISFIT, failing_since
from perdure.worker.domain.verdict import Verdict, VerdictCode
from perdure.worker.settings import Settings

#: Start of the year 10,000, in ms. Python's datetimes end there.
YEAR_10000 = 253_402_300_800_000


class RunCase:
    """One read of a run, and facts that follow from it. Times are in ms of the server's clock.

    Attributes:
        standing: The read itself.
        role: The role of the run's next round.
        alive: The live workers.
        of_role: The live workers that claim rounds of this role.
        willing: Those of ``of_role`` that run the run's flow.
    """

    def __init__(self, standing: RunSnapshot, settings: Settings) -> None:
        self.standing = standing
        self.now = standing.now
        self.fields = standing.fields
        self.id = self.fields.get("id", "?")
        self.phase = self.fields.get("phase", "")
        self.flow = self.fields.get("flow", "")
        self.queue = self.fields.get("queue", "")
        self.role = self.queue.rpartition(".")[2]
        self.node = self.fields.get("current_node", "?")
        self.owner = self.fields.get("owner", "?")
        self.lease = round(settings.lease_seconds * 1000)
        self.alive = [
            worker
            for worker in standing.workers
            if worker.is_alive(self.now, settings.heartbeat_seconds)
        ]
        self.of_role = [worker for worker in self.alive if worker.plays(self.role)]
        self.willing = [worker for worker in self.of_role if worker.knows(self.flow)]

    def say(self, code: VerdictCode, sentence: str, since: float | None, **details: Any) -> Verdict:
        """Return a verdict on the run.

        Args:
            code: The verdict's code.
            sentence: The verdict's sentence.
            since: When the state began, in ms. None if unknown.
            details: The verdict's details. The run's id and phase are added to them.
        """
        moment = None if since is None else datetime.fromtimestamp(since / 1000, UTC)
        return Verdict(code, sentence, moment, {"run": self.id, "phase": self.phase, **details})

    def no_worker(self, head: str) -> Verdict:
        """Return the verdict that no live worker has the role of the next round.

        Args:
            head: The beginning of the verdict's sentence, such as "Its next round waits".
        """
        gone = [
            worker
            for worker in self.standing.workers
            if worker not in self.alive and worker.plays(self.role)
        ]
        last = (
            f"; the last heartbeat of {gone[-1].name} was {self.ago(gone[-1].beat)} ago"
            if gone
            else ""
        )
        return self.say(
            VerdictCode.NO_WORKER,
            f"{head}, and no live worker runs {self.role} rounds{last}. Start one: "
            f"perdure worker --role {self.role}, or on an app of your own: celery -A ... worker",
            self.beat if self.phase == "leased" else self.since_phase,
            role=self.role,
            workers=[worker.name for worker in self.alive],
        )

    def time(self, name: str) -> float | None:
        """Return a time field of the run's hash (ms). None if it is absent or malformed."""
        return number(self.fields.get(name))

    @property
    def time_of_first_failure(self) -> float | None:
        """When the current step first failed or waited for its provider (ms). None if neither."""
        return failing_since(self.fields)

    @property
    def time_of_first_misfit(self) -> float | None:
        """When the step began to wait for a worker whose code fits (ms). None: it does not wait."""
        return failing_since(self.fields, MISFIT)

    def count(self, name: str) -> int:
        """Return a number field of the run's hash. 0 if it is absent or malformed."""
        return int(number(self.fields.get(name)) or 0)

    @property
    def since_phase(self) -> float | None:
        """When the run's phase began, in ms. None if unknown.

        For a queued run, it is the time when the run's message was published. But the message of a
        run that no worker has claimed yet may have been published several times. For such a run, it
        is the earliest time at which the run could begin.
        """
        if self.phase not in ("queued", "waiting"):
            return self.time("updated_at")
        if self.fields.get("started_at"):
            return self.time("queued_at" if self.phase == "queued" else "updated_at")
        times = (self.time(name) for name in ("created_at", "not_before", "resumed_at"))
        return max((time for time in times if time is not None and time <= self.now), default=None)

    @property
    def beat(self) -> float:
        """When the round's worker last sent a heartbeat, or else claimed the round, in ms.

        0 if the run was never claimed.
        """
        return max(self.time("claimed_at") or 0.0, self.time("beat_at") or 0.0)

    def ago(self, time: float) -> str:
        """Return the duration from ``time`` (ms, server clock) to now as text: ``5.0 s``."""
        return duration((self.now - time) / 1000)

    def soon(self, time: float | None) -> str:
        """Return the duration from now to ``time`` (ms, server clock) as text: ``in 5.0 s``.

        For a time that is past or None, the text is ``at the next sweep``.
        """
        if time is None or time <= self.now:
            return "at the next sweep"
        return f"in {duration((time - self.now) / 1000)}"

    @property
    def due(self) -> str:
        """When the sweeper checks the run next, as text: ``in 5.0 s``."""
        return self.soon(self.standing.due)


def names(workers: Sequence[WorkerInfo], shown: int = 3) -> str:
    """Return names of workers as one text: at most ``shown``, then the number of the others."""
    more = f" and {len(workers) - shown} more" if len(workers) > shown else ""
    return ", ".join(worker.name for worker in workers[:shown]) + more


def number(text: str | None) -> float | None:
    """Return the number in a hash field's text: count or ms.

    Returns:
        The number. None if the text is None or no decimal number, or if the number as a time is
        after the year 9999.
    """
    return (
        float(text)
        if text is not None and text.isdecimal() and len(text) < 16 and int(text) < YEAR_10000
        else None
    )


def iso(ms: float | None) -> str | None:
    """Return a time in ms as ISO 8601 text in UTC. For None, return None."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat()
