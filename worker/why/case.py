"""Case: one run under examination, with the words and numbers that all verdicts need."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from worker.durations import duration
from worker.record import failing_since
from worker.settings import Settings
from worker.standing import ALIVE_BEATS, Standing, WorkerSeen
from worker.verdict import Verdict, VerdictCode

#: In ms; Python's times end there.
YEAR_10000 = 253_402_300_800_000


class Case:
    """What was read, and what follows from it at once. Times in ms of the server's clock."""

    def __init__(self, standing: Standing, settings: Settings) -> None:
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
        patience = ALIVE_BEATS * settings.heartbeat_seconds * 1000
        self.alive = [worker for worker in standing.workers if self.now - worker.beat <= patience]
        self.of_role = [worker for worker in self.alive if worker.plays(self.role)]
        self.willing = [worker for worker in self.of_role if worker.knows(self.flow)]

    def say(self, code: VerdictCode, sentence: str, since: float | None, **details: Any) -> Verdict:
        """The verdict, with what every verdict tells."""
        moment = None if since is None else datetime.fromtimestamp(since / 1000, UTC)
        return Verdict(code, sentence, moment, {"run": self.id, "phase": self.phase, **details})

    def no_worker(self, head: str) -> Verdict:
        """Nobody takes rounds of this role; ``head`` says what waits for it."""
        gone = [worker for worker in self.standing.workers if worker not in self.alive and worker.plays(self.role)]
        last = f"; {gone[-1].name} was last heard of {self.ago(gone[-1].beat)} ago" if gone else ""
        return self.say(
            VerdictCode.NO_WORKER,
            f"{head}, and no live worker plays {self.role} rounds{last}. Start one: holdfast worker --role {self.role}",
            self.beat if self.phase == "leased" else self.since_phase,
            role=self.role,
            workers=[worker.name for worker in self.alive],
        )

    def time(self, name: str) -> float | None:
        """A time field of the run, or None."""
        return number(self.fields.get(name))

    @property
    def time_of_first_failure(self) -> float | None:
        """When the step at hand failed, or waited for its provider, for the first time."""
        return failing_since(self.fields)

    def count(self, name: str) -> int:
        """A count of the run, 0 where there is none."""
        return int(number(self.fields.get(name)) or 0)

    @property
    def since_phase(self) -> float | None:
        """Since when the run is in its phase, or (queued) since when its message is out."""
        return self.time("queued_at") if self.phase == "queued" else self.time("updated_at")

    @property
    def beat(self) -> float:
        """The last sign of life of the round in flight."""
        return max(self.time("claimed_at") or 0.0, self.time("beat_at") or 0.0)

    def ago(self, time: float) -> str:
        """How long ago that was."""
        return duration((self.now - time) / 1000)

    def soon(self, time: float | None) -> str:
        """When that will be."""
        if time is None or time <= self.now:
            return "at the next sweep"
        return f"in {duration((time - self.now) / 1000)}"

    @property
    def due(self) -> str:
        """When the run is looked at next."""
        return self.soon(self.standing.due)


def names(workers: Sequence[WorkerSeen], shown: int = 3) -> str:
    """The workers by name, not all of many."""
    more = f" and {len(workers) - shown} more" if len(workers) > shown else ""
    return ", ".join(worker.name for worker in workers[:shown]) + more


def number(text: str | None) -> float | None:
    """A count or time as the scripts write them; None where it is none, or beyond the year 10,000."""
    return float(text) if text is not None and text.isdecimal() and len(text) < 16 and int(text) < YEAR_10000 else None


def iso(ms: float | None) -> str | None:
    """The time as JSON data."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat()
