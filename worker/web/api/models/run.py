"""Runs, and what is said of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from worker.execution_state import ExecutionState
from worker.run import RunStatus
from worker.verdict import VerdictCode
from worker.web.api.models.base import Answer


class Interrupt(Answer):
    """What a run asks, or asked last."""

    id: str
    """An answer that names it answers nothing else."""
    kind: str | None
    reason: str | None
    data: Any
    answered: bool
    deadline: datetime | None
    """When `default` answers."""
    default: Any


class Progress(Answer):
    """How far a round says it has come."""

    model_config = ConfigDict(extra="allow")

    done: float | None = None
    total: float | None = None
    text: str | None = None


class Unfinished(Answer):
    """The cycles that a run has used up, and how many it might have."""

    cycles: int
    of: int | None


class Details(Answer):
    """What the engine knows beyond the status; what does not apply is not there. Times as of the state server."""

    model_config = ConfigDict(extra="allow")

    submitted_by: str = ""
    """Whose run it is."""
    owner: str = ""
    """The worker that plays its round, or played the last one."""
    waiting_for: str = ""
    last_error: str = ""
    traceback: str = ""
    """Of the round that failed last, until a later one is done; lists of runs leave it out."""
    last_node: str = ""
    stop_mode: str = ""
    stop_by: str = ""
    stop_reason: str = ""
    in_doubt: str = ""
    """`step/node/attempt` of a round that was fenced in flight."""
    quarantined: str = ""
    resumed_by: str = ""
    """Who answered or resumed it last; `deadline` where a question's deadline did."""
    epoch: int
    attempt: int
    failures: int
    losses: int
    """Workers lost under this step."""
    cycles: int
    turns: int
    budgets: dict[str, float] = Field(default_factory=dict)
    spent: dict[str, float] = Field(default_factory=dict)
    unfinished: Unfinished | None = None
    """Of a completed run that used up its cycles: resume it with `add: {"cycles": N}` to go on."""
    idle_seconds: float = 0
    """How long it has waited for people."""
    progress: Any = None
    interrupt: Interrupt | None = None
    started_at: datetime | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    beat_at: datetime | None = None
    waiting_until: datetime | None = None
    not_before: datetime | None = None
    deadline: datetime | None = None
    ended_at: datetime | None = None
    stop_asked_at: datetime | None = None
    stop_seen_at: datetime | None = None
    stopped_at: datetime | None = None
    resumed_at: datetime | None = None


class Run(Answer):
    """One durable execution, as it was when it was read."""

    id: str
    flow: str
    goal: str
    inputs: dict[str, Any]
    status: RunStatus
    """Where it stands, in one word."""
    phase: str
    """The same as the engine has it: `queued`, `leased`, `waiting`, or as the status."""
    finished: bool
    """Whether it has done what it was for: it is completed, and neither were its cycles used up nor did a person leave it."""
    state: ExecutionState
    answer: Any
    """What it came to, once it is completed."""
    output: dict[str, Any]
    error: str | None
    """Why it is errored."""
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str]
    details: Details


class Page(Answer):
    """Some runs."""

    runs: list[Run]
    cursor: str | None
    """Continues behind them; null at the end. A page may hold fewer runs than were asked for, even none, and yet have one."""
    damaged: list[str]
    """Runs among them that do not read."""
    counts: dict[str, int] | None = None
    """On the first page: how many runs there are of each status, whatever was asked for; of one's own, among the newest 1,000."""


class Submitted(Answer):
    """What was submitted beside goal and inputs."""

    interrupt_before: list[str]
    interrupt_after: list[str]
    max_rounds: int | None
    idempotency_key: str | None


class WholeRun(Run):
    """A run with all it holds."""

    options: Submitted
    values: dict[str, Any]
    """What its rounds remember by name."""


class Command(Answer):
    """A command that a controller decided on."""

    model_config = ConfigDict(extra="allow")

    name: str
    args: dict[str, Any]


class Turn(Answer):
    """A command and what came of it."""

    command: Command | None
    observation: Any


class Event(Answer):
    """One thing that happened to a run."""

    id: str
    """Orders the events of a run, and can be passed back as `after`."""
    type: str
    """`submitted`, `committed`, `interrupted`, `resumed`, `stop_requested`, `stopped`, `completed`, `errored`, `retried`, ..."""
    at: datetime
    step: int
    attempt: int
    node: str
    data: dict[str, Any]


class Events(Answer):
    """Some of what happened to a run, oldest first."""

    events: list[Event]
    more: bool
    """Whether there may be more behind them: ask again with the last one's id as `after`."""


class Transcript(Answer):
    """A run, what it did, and what happened to it."""

    run: WholeRun
    history: list[Turn]
    events: list[Event]


class Verdict(Answer):
    """Why a run is where it is."""

    code: VerdictCode
    sentence: str
    """What is, and what to do."""
    since: datetime | None
    details: dict[str, Any]
    """The facts behind it; times as ISO texts, durations in seconds."""


class StopReceipt(Answer):
    """What became of a request to stop a run."""

    run_id: str
    known: bool
    """Whether there is such a run."""
    running: bool
    """Whether it was live when the request came in."""
    why_not: str | None
    """`no-state` (no such run), `not-running`; of a damaged run, what is wrong with it."""
    stopped: bool
    """Whether it is stopped now; after `graceful`, the round in flight may finish first."""
    status: str | None
    """The run's phase as the request left it."""
    mode: Literal["graceful", "now"]
    requested_by: str | None
    reason: str | None
    asked_at: datetime | None
    seen_at: datetime | None
    stopped_at: datetime | None
    step: int | None = Field(ge=0)
    """Rounds committed."""
    in_doubt: str | None
    """`step/node/attempt` of the round that was fenced in flight: nobody can vouch for its effects."""


class Done(Answer):
    """What became of one run among many."""

    run: str
    why_not: str | None
    """Why nothing was done; null where it was."""
