"""Flows, workers, people's questions and the doctor's findings."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from worker.waiting import Kind
from worker.web.api.models.base import Answer


class Flow(Answer):
    """A flow that the server or a live worker knows; of a worker of another version it may tell more, or less."""

    model_config = ConfigDict(extra="allow")

    description: str = ""
    first: str
    """The node that a run begins with."""
    nodes: dict[str, str]
    """Each node's role: `controller` or `executor`."""
    max_rounds: int | None = None
    interrupt_before: list[str] = Field(default_factory=list)
    interrupt_after: list[str] = Field(default_factory=list)
    lease_seconds: float | None = None
    round_timeout_seconds: float | None = None
    runs_shell: bool = False
    """Whether it runs shell commands of the submitter; workers play such flows only where they are told to."""
    shipped: bool = False
    """Whether it came with Holdfast."""
    budgets: dict[str, float] = Field(default_factory=dict)
    missing: list[str] = Field(default_factory=list)
    """What the server lacks to play it."""
    inputs: dict[str, Any] | None
    """The JSON Schema of its inputs; null: they are taken as given."""
    workers: list[str]
    """The live workers that play it."""


class Pause(Answer):
    """A flow that is paused: no round of its runs is claimed."""

    at: datetime
    by: str | None
    reason: str | None


class Paused(Pause):
    """What became of a request to pause a flow."""

    flow: str
    paused: Literal[True]
    new: bool
    """Whether it was running until now."""


class Unpaused(Answer):
    """What became of a request to let a flow go on."""

    flow: str
    paused: Literal[False]
    offered: int
    """Runs that were held and are offered to workers again."""


class Worker(Answer):
    """A worker that announced itself lately, with what it announced."""

    model_config = ConfigDict(extra="allow")

    name: str
    silent: float
    """Seconds since it was last heard of."""
    alive: bool
    role: str = ""
    pool: str = ""
    concurrency: int = 0
    rounds: int = 0
    """Rounds it plays at the moment."""
    draining: bool = False
    """Whether it takes no more rounds and leaves."""
    durability: str = "strict"
    """``relaxed``: it plays rounds on a server that may lose runs."""
    flows: dict[str, Any] = Field(default_factory=dict)


class Waiting(Answer):
    """A run that waits for a person, and what it asks."""

    id: str
    """An answer that names it (`interrupt`) answers nothing else."""
    run_id: str
    flow: str
    goal: str
    since: datetime
    kind: Kind
    question: str
    data: dict[str, Any] | None
    deadline: datetime | None
    """When `default` answers; null: never."""
    default: Any
    command: str | None
    """Of an approval, exactly what would be carried out; of a command in doubt, what may have been."""
    args: dict[str, Any]
    digest: str | None
    key: str | None = None
    """Of a command in doubt: its idempotency key, by which the other side may know whether it has happened."""
    began: datetime | None = None
    """Of a command in doubt: when its attempt began."""
    worker: str | None = None
    """Of a command in doubt: which worker it was that did not come back."""
    how: list[str]
    """Commands on a command line that answer it, one of which is to be given."""


class Inbox(Answer):
    """Some of what waits for people, longest first."""

    waiting: list[Waiting]
    cursor: str | None
    """Continues behind them; null at the end."""
    damaged: list[str]
    """Runs among them that do not read."""


class Finding(Answer):
    """What one check of the doctor came to."""

    check: str
    level: Literal["ok", "warning", "refused", "unknown"]
    sentence: str
    remedy: str
    """What to do about it; empty where all is well."""


class Up(Answer):
    """The process is there."""

    status: Literal["up"]


class Ready(Answer):
    """The state server answers."""

    status: Literal["ready"]
    workers: int
    """Workers that are alive."""


class Queue(Answer):
    """One of the broker's queues of rounds."""

    role: Literal["controller", "executor"]
    name: str
    """What the broker calls it."""
    length: int | None
    """Messages in it; null where the broker does not answer."""
    pushed: int
    """The number of the newest message pushed."""
    taken: int
    """The number of the newest message that was claimed."""
    oldest: float | None
    """Seconds that the run of the next message has waited; null where there is none, or it cannot be told."""


class Letter(Answer):
    """A message that workers refused."""

    at: float
    """When, in seconds since 1970."""
    list: str
    """The queue that it came on."""
    why: str
    bytes: int
    message: str
    """Its beginning."""
