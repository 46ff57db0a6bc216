"""Run: what a client sees of one durable execution."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, ClassVar, Required

from pydantic import with_config
from typing_extensions import TypedDict

from perdure.flows.core.names import ONLY
from perdure.worker.domain.document import (
    CLOSED,
    OPEN,
    DescribedBy,
    Document,
    MaybeText,
    TimeText,
    absent,
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


@with_config(CLOSED)
class RunInterrupt(TypedDict):
    """The run's open question, or its last one."""

    id: str
    """An answer that names this id applies to no other question."""
    kind: str | None
    reason: str | None
    data: Any
    answered: bool
    deadline: TimeText | None
    """When ``default`` is taken as the answer. Not set: never."""
    default: Any


@with_config(CLOSED)
class UsedCycles(TypedDict):
    """The cycles that a run used, and its limit."""

    cycles: int
    of: int | None


@with_config(CLOSED)
class RunCall(TypedDict):
    """The command that a run carries out, and nothing else."""

    command: str
    args: dict[str, Any]


@with_config(CLOSED)
class RunFile(TypedDict):
    """A file of the run: everything but its bytes."""

    file: str
    """Its name in the run."""
    media_type: str
    bytes: int
    digest: str
    """The first 16 hexadecimal digits of its SHA-256."""


@with_config(CLOSED)
class ForkOrigin(TypedDict):
    """The run from which a fork has the rounds before its first one."""

    run: str
    step: int
    """The fork's first round. It was played anew."""
    turns: int
    """Number of turns of the history that the fork has from it."""
    spent: dict[str, float]
    """What the rounds before had spent. It is not part of what the fork has spent."""


class ShortBudget(TypedDict):
    """A budget that is used up, and the run that has it."""

    budget: str
    of: str


@with_config(OPEN)
class RunDetails(TypedDict, total=False):
    """Facts about the run beyond its status.

    Fields that do not apply are left out. Times are those of the state server.
    """

    submitted_by: MaybeText
    """The run's owner."""
    topic: MaybeText
    """The topic that the run took, see ``Client.submit``. Another run may hold it by now."""
    model: MaybeText
    """The model that the submission chose for the run."""
    files: list[RunFile]
    """The files that were submitted with the run. Left out if there are none."""
    exposed: list[str]
    """The protocols to whose clients its flow was exposed at the submission: ``mcp``, ``openai``.

    Left out if there are none.
    """
    forked: ForkOrigin | None
    """Where the run was forked from another one. Set for a fork."""
    owner: MaybeText
    """The worker that runs the round in flight, or ran the last one."""
    waiting_for: MaybeText
    last_error: MaybeText
    traceback: MaybeText
    """The traceback of the last failed round, until a later round is committed.

    Lists of runs leave it out.
    """
    last_node: MaybeText
    stop_mode: MaybeText
    stop_by: MaybeText
    stop_reason: MaybeText
    in_doubt: MaybeText
    """``step/node/attempt`` of a round that was in flight and fenced.

    Its effects may or may not have happened.
    """
    quarantined: MaybeText
    parent: MaybeText
    """The run that started this one, and waits for it."""
    group: MaybeText
    """The group of its parent's children to which it belongs: ``STEP.NAME``."""
    place: int
    """Its position in this group, from 0. Set for runs that have a parent."""
    depth: int
    """Its generation: 1 for a child of a run without parent. Set for runs that have a parent."""
    root: MaybeText
    """The run without parent at the top of its tree."""
    call: RunCall | None
    """Set for a run that carries out one of several commands of its parent at once."""
    resumed_by: MaybeText
    """The last to answer or resume the run. ``deadline`` if a question's deadline did."""
    epoch: Required[int]
    attempt: Required[int]
    failures: Required[int]
    losses: Required[int]
    """Number of workers lost during this step."""
    cycles: Required[int]
    turns: Required[int]
    """Number of turns of the history, with the ``forgotten`` ones."""
    forgotten: int
    """Number of the oldest turns, which are gone. Set if any are."""
    generation: int
    """How often the run was renewed. Set if it was."""
    earlier_cycles: int
    """The cycles before the last renewal. Set if the run was renewed."""
    keep_events: int
    """Number of the newest events that the run keeps. Set if it does not keep all."""
    budgets: dict[str, float]
    """The limits by name, with what was added to them. They count the runs below it too."""
    spent: dict[str, float]
    """What the run itself has spent, by name."""
    spent_below: dict[str, float]
    """What the runs below it have spent, by name, and how many they are (``runs``)."""
    waits_for_budget: ShortBudget | None
    """The budget of a run above for which the run waits. Another run asks a person for it."""
    unfinished: UsedCycles | None
    """Set for a completed run that used up its cycles.

    To continue it, resume it with ``add: {"cycles": N}``.
    """
    idle_seconds: Annotated[float, absent(0)]
    """How long the run has waited for people."""
    progress: Any
    interrupt: RunInterrupt | None
    started_at: TimeText | None
    claimed_at: TimeText | None
    lease_until: TimeText | None
    beat_at: TimeText | None
    waiting_until: TimeText | None
    waiting_since: TimeText | None
    """When the first of its provider's failures came for which the run waits."""
    wait_until: TimeText | None
    """When the time of the node's wait is over."""
    signals: list[str] | None
    """The signals for which the node waits."""
    received: int
    """The number of signals that were sent to the run. Left out if there are none."""
    waits_for_children: list[str] | None
    """The groups of children for which the node waits."""
    trace_id: MaybeText
    not_before: TimeText | None
    deadline: TimeText | None
    ended_at: TimeText | None
    stop_asked_at: TimeText | None
    stop_seen_at: TimeText | None
    stopped_at: TimeText | None
    resumed_at: TimeText | None


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
    """The engine's own state: ``queued``, ``leased``, ``waiting``, or equal to the status."""
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
        """What the run does, on a line for people: its goal, or the one command of it.

        For a run without a goal, these are the beginnings of its inputs: ``city=Oslo days=3``.
        """
        return self.purpose or inputs_line(self.inputs)

    @property
    def purpose(self) -> str:
        """The run's goal, or the one command of it, without its inputs."""
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
    """Result of an operation for one of many runs."""

    run_id: str
    """The run's id."""
    why_not: str | None = None
    """Why nothing was done. Not set if it was done."""

    _aliases: ClassVar = {"run_id": "run"}


def status_of(fields: Mapping[str, str]) -> RunStatus:
    """Return the status that clients see for a run's stored phase.

    Raises:
        DamagedRun: The phase is unknown.
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
    """Return whether a run's stored traceback belongs to its last failure.

    An older worker leaves the traceback behind when a later round succeeds.
    """
    return bool(fields.get("traceback")) and ("last_error" in fields or "error" in fields)


#: Characters of one input, and of all inputs, in a title. Lists cut a title after 140.
INPUT_SHOWN, INPUTS_SHOWN = 60, 200
#: Fields of a run's hash that say what the run does, for ``title_of``.
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
    """Return the title of a run of which only ``TITLE_FIELDS`` were read.

    Raises:
        DamagedRun: A field cannot be read.
    """
    record = Record(fields)
    return _purpose(fields.get("goal", ""), _call(record)) or inputs_line(record.inputs)


def inputs_line(inputs: Mapping[str, Any]) -> str:
    """Return inputs on a line for people, as ``NAME=VALUE`` like in a query line. It is cut."""
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
    """Return the one command that a child run carries out, or None if it plays a whole flow."""
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
