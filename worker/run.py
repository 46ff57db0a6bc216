"""Run: what a client sees of one durable execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from worker.errors import DamagedRun
from worker.execution_state import ExecutionState
from worker.record import UNFINISHED, Record, failing_since


class RunStatus(Enum):
    """Where a run stands, in one word."""

    QUEUED = "queued"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    COMPLETED = "completed"
    ERRORED = "errored"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens unless somebody resumes or retries the run."""
        return self in (RunStatus.STOPPED, RunStatus.COMPLETED, RunStatus.ERRORED)


@dataclass(frozen=True)
class Run:
    """One durable execution, as it was when it was read.

    ``status`` is derived: a live run is ``queued`` until its first round has been claimed, ``running`` from then on.
    ``phase`` and ``details`` say what the engine knows beyond that (lease owner, attempt, waiting for what, progress).
    """

    id: str
    flow: str
    goal: str
    inputs: Mapping[str, Any]
    status: RunStatus
    state: ExecutionState
    answer: Any
    output: dict[str, Any]
    error: str | None
    created_at: datetime
    updated_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    phase: str = "queued"
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Record) -> Run:
        """The run a record describes; raises DamagedRun where it does not read."""
        fields = record.fields
        ended = fields.get("phase") == "completed"
        return cls(
            id=record.id,
            flow=fields.get("flow", ""),
            goal=fields.get("goal", ""),
            inputs=record.inputs,
            status=status_of(fields),
            state=record.state,
            # Where a person looks before the answer goes out, it is there and has not gone out yet.
            answer=record.json("answer", None) if ended else None,
            output=record.mapping("output") if ended else {},
            error=fields.get("error"),
            created_at=_when(record, "created_at"),
            updated_at=_when(record, "updated_at"),
            labels=record.mapping("labels"),
            phase=fields.get("phase", ""),
            details=_details(record),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Run:
        """The run that ``to_dict`` told of; raises KeyError, ValueError where something is missing or cannot be."""
        times = {name: datetime.fromisoformat(data[name]) for name in ("created_at", "updated_at")}
        known = {each.name: data[each.name] for each in fields_of(cls)}
        return cls(**{**known, **times, "status": RunStatus(data["status"]), "state": ExecutionState.from_dict(data["state"])})

    @property
    def finished(self) -> bool:
        """Whether the run has done what it was for: it is completed, and not because its cycles were used up or a person left it."""
        return self.status is RunStatus.COMPLETED and UNFINISHED not in self.details and self.output.get("status") != "unfinished"

    @property
    def status_text(self) -> str:
        """The status for people: that of a completed run says so if it is not finished."""
        if self.status is not RunStatus.COMPLETED or self.finished:
            return self.status.value
        used = self.details.get(UNFINISHED)
        return f"unfinished after {used['cycles']} of {used['of']} cycles" if used else "unfinished"

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON data."""
        return {
            "id": self.id,
            "flow": self.flow,
            "goal": self.goal,
            "inputs": dict(self.inputs),
            "status": self.status.value,
            "finished": self.finished,
            "phase": self.phase,
            "state": self.state.to_dict(),
            "answer": self.answer,
            "output": self.output,
            "error": self.error,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "labels": dict(self.labels),
            "details": dict(self.details),
        }


def status_of(fields: Mapping[str, str]) -> RunStatus:
    """The status that the phase stands for."""
    phase = fields.get("phase", "")
    if phase in ("queued", "leased", "waiting"):
        return RunStatus.RUNNING if "started_at" in fields else RunStatus.QUEUED
    try:
        return RunStatus(phase)
    except ValueError as error:
        raise DamagedRun(f"run {fields.get('id', '?')}: its phase is {phase!r}, which is none") from error


#: What ``details`` shows beside the state, where the run has it.
DETAILS = (
    "submitted_by",
    "owner",
    "waiting_for",
    "last_error",
    "last_node",
    "stop_mode",
    "stop_by",
    "stop_reason",
    "in_doubt",
    "quarantined",
    "resumed_by",
)
TIMES = (
    "started_at",
    "claimed_at",
    "lease_until",
    "beat_at",
    "waiting_until",
    "not_before",
    "deadline",
    "ended_at",
    "stop_asked_at",
    "stop_seen_at",
    "stopped_at",
    "resumed_at",
)


def _has_traceback(fields: Mapping[str, str]) -> bool:
    """Return whether the traceback is that of the run's last failure: an older worker leaves it behind when a later round is done."""
    return bool(fields.get("traceback")) and ("last_error" in fields or "error" in fields)


def _details(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {name: record.fields[name] for name in DETAILS if record.fields.get(name)}
    found |= {name: _when(record, name).isoformat() for name in TIMES if record.fields.get(name)}
    found |= {name: record.count(name) for name in ("epoch", "attempt", "failures", "losses", "cycles", "turns")}
    if (parts := record.fields.get("trace", "").split("-")) and len(parts) == 4:  # a traceparent
        found["trace_id"] = parts[1]
    if record.fields.get("waiting_for") == "provider" and (since := failing_since(record.fields)):
        found["waiting_since"] = datetime.fromtimestamp(since / 1000, UTC).isoformat()
    if "progress" in record.fields:
        found["progress"] = record.json("progress", None)
    if _has_traceback(record.fields):
        found["traceback"] = record.fields["traceback"]
    if UNFINISHED in record.fields and record.fields.get("phase") == "completed":
        found[UNFINISHED] = {"cycles": record.count(UNFINISHED), "of": record.max_rounds}
    found |= {name: record.amounts(name) for name in ("budgets", "spent") if name in record.fields}
    if "idle" in record.fields:
        found["idle_seconds"] = record.count("idle") / 1000
    if "i_id" in record.fields:
        found["interrupt"] = {
            "id": record.fields["i_id"],
            "kind": record.fields.get("i_kind"),
            "reason": record.fields.get("i_reason"),
            "data": record.json("i_data", None),
            "answered": "i_answer" in record.fields,
            "deadline": _when(record, "i_until").isoformat() if record.fields.get("i_until") else None,
            "default": record.json("i_default", None),
        }
    return found


def _when(record: Record, name: str) -> datetime:
    try:
        return datetime.fromtimestamp(record.time(name) or 0.0, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise DamagedRun(f"run {record.id}: field {name!r} is a time that cannot be: {record.fields[name]!r}") from error
