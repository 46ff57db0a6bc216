"""Run: one durable execution, as a client sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, ClassVar

from perdure.flows.core.names import ONLY
from perdure.worker.domain.document import (
    DescribedBy,
    Document,
)
from perdure.worker.domain.execution_state import ExecutionState
from perdure.worker.domain.fork import shown_origin
from perdure.worker.domain.record import (
    ARRIVED,
    EARLIER_CYCLES,
    EXPOSED,
    FAILING,
    FILES,
    FORGOTTEN,
    FORKED,
    GENERATION,
    KEEP_EVENTS,
    MISFIT,
    UNFINISHED,
    VALUE,
    Record,
    awaited,
    failing_since,
)
from perdure.worker.domain.remedy import remedy_in
from perdure.worker.domain.run_details import RunDetails
from perdure.worker.errors import DamagedRun


class RunStatus(Enum):
    """Status of a run as clients see it."""

    QUEUED = "queued"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    COMPLETED = "completed"
    ERRORED = "errored"

    @property
    def ended(self) -> bool:
        """Whether the run has ended: nothing more happens until it is resumed or retried."""
        return self in (RunStatus.STOPPED, RunStatus.COMPLETED, RunStatus.ERRORED)


@dataclass(frozen=True)
class Run(Document):
    """One durable execution, as it was when it was read."""

    id: str
    """Id of the run."""
    flow: str
    """Name of its flow."""
    goal: str
    """The goal, as submitted."""
    inputs: Mapping[str, Any]
    """The inputs, as submitted, after validation."""
    status: RunStatus
    """The run's state, in one word. It is derived from ``phase``.

    A live run is ``queued`` until its first round is claimed, and ``running`` from then on.
    """
    state: ExecutionState
    """Node, step, interrupt and stop request."""
    answer: Any
    """The answer of a completed run."""
    output: dict[str, Any]
    """JSON values by name of a completed run. Else empty."""
    error: str | None
    """Text of the error that ended the run."""
    created_at: datetime
    """Time of the submission, by the clock of the state server."""
    updated_at: datetime
    """Time of the last transition, by the clock of the state server."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels, as submitted."""
    phase: str = "queued"
    """The engine's own state: ``queued``, ``leased``, ``waiting``, ``parked``, or the status."""
    details: Annotated[Mapping[str, Any], DescribedBy(RunDetails)] = field(default_factory=dict)
    """What else the engine knows: the lease owner, the attempt, what the run waits for, its
    progress.
    """

    _members: ClassVar[tuple[str, ...]] = (
        "id", "flow", "goal", "inputs", "status", "finished", "phase", "state", "answer", "output",
        "error", "created_at", "updated_at", "labels", "details",
    )  # fmt: skip

    @classmethod
    def of(cls, record: Record) -> Run:
        """Build what a client sees of a run from the run's stored record.

        Raises:
            DamagedRun: A field of the record cannot be read.
        """
        fields = record.fields
        ended = fields.get("phase") == "completed"
        return cls(
            id=record.id,
            flow=fields.get("flow", ""),
            goal=fields.get("goal", ""),
            inputs=record.inputs,
            status=status_of(fields),
            state=record.state,
            # While a person reviews the end, the answer is stored but must not be shown as the
            # run's.
            answer=record.json("answer", None) if ended else None,
            output=record.mapping("output") if ended else {},
            error=fields.get("error"),
            created_at=_when(record, "created_at"),
            updated_at=_when(record, "updated_at"),
            labels=record.mapping("labels"),
            phase=fields.get("phase", ""),
            details=_details(record),
        )

    @property
    def title(self) -> str:
        """The run's goal, or its only command, on a line for people.

        For a run without a goal, these are the beginnings of its inputs: ``city=Oslo days=3``.
        """
        return self.purpose or inputs_line(self.inputs)

    @property
    def purpose(self) -> str:
        """The run's goal, or its only command. Empty for a run that has neither."""
        return _purpose(self.goal, self.details.get("call"))

    @property
    def step(self) -> int:
        """The number of the step that the run is at, as in ``state.step``."""
        return self.state.step

    @property
    def finished(self) -> bool:
        """Whether the run completed its work.

        False for a run that completed only because its cycles were used up or a person ended it.
        """
        return (
            self.status is RunStatus.COMPLETED
            and UNFINISHED not in self.details
            and self.output.get("status") != "unfinished"
        )

    @property
    def status_text(self) -> str:
        """The status for people. It marks a completed run whose work is unfinished."""
        if self.status is not RunStatus.COMPLETED or self.finished:
            return self.status.value
        used = self.details.get(UNFINISHED)
        if used is None:
            return "unfinished"
        cycles = "cycle" if used["of"] == 1 else "cycles"
        return f"unfinished after {used['cycles']} of {used['of']} {cycles}"


@dataclass(frozen=True)
class Page(Document):
    """One page of runs."""

    runs: list[Run]
    """Its runs."""
    cursor: str | None = None
    """Cursor of the next page. Not set at the end.

    A page may hold fewer runs than requested, even none, and yet have a cursor.
    """
    damaged: tuple[str, ...] = ()
    """Ids of runs on this page that cannot be read."""

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)


@dataclass(frozen=True)
class Done(Document):
    """The outcome of a bulk operation for one of its runs: success, or why nothing was done."""

    run_id: str
    """The run's id."""
    why_not: str | None = None
    """Why nothing was done. Not set if it was done."""

    _aliases: ClassVar = {"run_id": "run"}


def status_of(fields: Mapping[str, str]) -> RunStatus:
    """Return the status that clients see, from the fields of a run's hash.

    Raises:
        DamagedRun: The phase is missing or unknown.
    """
    phase = fields.get("phase", "")
    if phase in ("queued", "leased", "waiting", "parked"):
        return RunStatus.RUNNING if "started_at" in fields else RunStatus.QUEUED
    try:
        return RunStatus(phase)
    except ValueError as error:
        raise DamagedRun(f"run {fields.get('id', '?')}: unknown phase {phase!r}") from error


#: Text fields that ``details`` copies when the run has them.
DETAILS = (
    "submitted_by",
    "topic",
    "model",
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
    "parent",
    "group",
    "root",
)
#: Time fields that ``details`` shows as ISO 8601 texts when the run has them.
TIMES = (
    "started_at",
    "claimed_at",
    "lease_until",
    "beat_at",
    "waiting_until",
    "wait_until",
    "not_before",
    "deadline",
    "ended_at",
    "stop_asked_at",
    "stop_seen_at",
    "stopped_at",
    "resumed_at",
)


def _has_traceback(fields: Mapping[str, str]) -> bool:
    """Return whether the stored traceback belongs to the run's last failure.

    A worker of an earlier release does not delete the traceback when a later round succeeds.
    """
    return bool(fields.get("traceback")) and ("last_error" in fields or "error" in fields)


#: Characters of one input, and of all inputs, in a title. Lists cut a title after 140.
INPUT_SHOWN, INPUTS_SHOWN = 60, 200
#: Hash fields that make up a run's title, for ``title_of``.
TITLE_FIELDS = (
    "id",
    "goal",
    "inputs",
    "parent",
    VALUE + ONLY,
    f"{VALUE}command",
    f"{VALUE}command_args",
)


def title_of(fields: Mapping[str, str]) -> str:
    """Return a run's title (``Run.title``) from the fields of its hash.

    Args:
        fields: At least the ``TITLE_FIELDS`` that the run has.

    Raises:
        DamagedRun: A field cannot be read.
    """
    record = Record(fields)
    return _purpose(fields.get("goal", ""), _call(record)) or inputs_line(record.inputs)


def inputs_line(inputs: Mapping[str, Any]) -> str:
    """Return inputs as text for people: ``NAME=VALUE``, separated by spaces.

    Each value is cut at INPUT_SHOWN characters, and the text at INPUTS_SHOWN.
    """
    parts: list[str] = []
    for name, value in inputs.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"{name}={text[:INPUT_SHOWN]}{'…' if len(text) > INPUT_SHOWN else ''}")
        if sum(map(len, parts)) > INPUTS_SHOWN:
            break
    line = " ".join(parts)
    return line if len(line) <= INPUTS_SHOWN else f"{line[: INPUTS_SHOWN - 1]}…"


def _purpose(goal: str, call: Mapping[str, Any] | None) -> str:
    if call is None:
        return goal
    args = json.dumps(call["args"], ensure_ascii=False)
    return f"{call['command']} {args if call['args'] else ''}".strip()


def _call(record: Record) -> dict[str, Any] | None:
    """Return the only command of a child run. None for a run that executes a whole flow."""
    if "parent" not in record.fields or VALUE + ONLY not in record.fields:
        return None
    return {
        "command": record.json(f"{VALUE}command", ""),
        "args": record.mapping(f"{VALUE}command_args"),
    }


def _details(record: Record) -> dict[str, Any]:
    details: dict[str, Any] = {
        name: record.fields[name] for name in DETAILS if record.fields.get(name)
    }
    if FILES in record.fields:
        details["files"] = [each.data for each in record.files]
    details |= {name: record.json(name, []) for name in ("interrupt_before", "interrupt_after")}
    if record.max_rounds is not None:
        details["max_rounds"] = record.max_rounds
    if record.chosen is not None:
        details["chosen"] = record.chosen
    if "retry" in record.fields:
        details["retry"] = record.json("retry", {})
    if record.fields.get(EXPOSED):
        details["exposed"] = record.fields[EXPOSED].split(",")
    if FORKED in record.fields:
        details["forked"] = shown_origin(record)
    details |= {name: _when(record, name).isoformat() for name in TIMES if record.fields.get(name)}
    if record.fields.get("phase") == "parked":
        names = awaited(record.fields)
        details["signals"] = names["signals"]
        if names["children"]:
            details["waits_for_children"] = names["children"]
    if record.fields.get(ARRIVED, "").isdecimal():
        details["received"] = int(record.fields[ARRIVED])
    if "parent" in record.fields:
        details |= {"place": record.count("place"), "depth": record.count("depth")}
    if (call := _call(record)) is not None:
        details["call"] = call
    details |= {
        name: record.count(name)
        for name in ("epoch", "attempt", "failures", "losses", "cycles", "turns")
    }
    details |= {
        name: record.count(name)
        for name in (FORGOTTEN, GENERATION, EARLIER_CYCLES, KEEP_EVENTS)
        if name in record.fields
    }
    if (parts := record.fields.get("trace", "").split("-")) and len(parts) == 4:  # a traceparent
        details["trace_id"] = parts[1]
    clock = {"provider": FAILING, "code": MISFIT}.get(record.fields.get("waiting_for", ""))
    if clock is not None and (since := failing_since(record.fields, clock)):
        details["waiting_since"] = datetime.fromtimestamp(since / 1000, UTC).isoformat()
    if (remedy := remedy_in(record.fields)) != "retry":
        details["remedy"] = remedy
    if "progress" in record.fields:
        details["progress"] = record.json("progress", None)
    if _has_traceback(record.fields):
        details["traceback"] = record.fields["traceback"]
    if UNFINISHED in record.fields and record.fields.get("phase") == "completed":
        details[UNFINISHED] = {"cycles": record.count(UNFINISHED), "of": record.max_rounds}
    if "budgets" in record.fields:
        details["budgets"] = dict(record.limits)
    if "spent" in record.fields:
        details["spent"] = record.spent
    if record.tree:
        details["spent_below"] = record.tree
    if record.short_of is not None:
        of, budget = record.short_of
        details["waits_for_budget"] = {"budget": budget, "of": of}
    if "idle" in record.fields:
        details["idle_seconds"] = record.count("idle") / 1000
    if "i_id" in record.fields:
        details["interrupt"] = {
            "id": record.fields["i_id"],
            "kind": record.fields.get("i_kind"),
            "reason": record.fields.get("i_reason"),
            "data": record.json("i_data", None),
            "answered": "i_answer" in record.fields,
            "deadline": _when(record, "i_until").isoformat()
            if record.fields.get("i_until")
            else None,
            "default": record.json("i_default", None),
        }
    return details


def _when(record: Record, name: str) -> datetime:
    try:
        return datetime.fromtimestamp(record.time(name) or 0.0, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise DamagedRun(
            f"run {record.id}: field {name!r} is not a valid time: {record.fields[name]!r}"
        ) from error
