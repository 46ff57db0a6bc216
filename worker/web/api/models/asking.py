"""What is sent with a call."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from flows.budgets import MOST as MOST_OF_A_BUDGET
from flows.durations import as_seconds, is_duration, seconds_of
from worker.client.arguments import NONCE
from worker.run import RunStatus
from worker.submission import RUN_ID
from worker.transitions import LONGEST
from worker.web.access.permitted import MOST
from worker.web.api.models.base import Asked, Known

#: Cycles beyond which a limit is none; every reader of JSON takes the number as it is.
MOST_ROUNDS = 10**9


def moment(given: object) -> object:
    """A time as it comes: a text of ISO 8601 with its time zone, a duration from now, or seconds from now."""
    if isinstance(given, str) and is_duration(given):
        given = seconds_of(given)
    if isinstance(given, str):
        try:
            found = datetime.fromisoformat(given)
        except ValueError as error:
            raise ValueError(
                f"{given[:40]!r} is no time; expected one like 2026-11-22T08:00:00+01:00, a duration like 10m, or seconds from now"
            ) from error
        if found.tzinfo is None:
            raise ValueError(f"{given!r} has no time zone; expected one like {given}Z or {given}+01:00")
        return found
    if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= LONGEST):
        raise ValueError(f"expected a time as ISO text, or seconds from now: from 0 to {LONGEST:.0f} (ten years)")
    return given


def whole(given: object) -> object:
    """A whole number, however it is written: to JSON 3.0 is one."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


When = Annotated[
    datetime | float | None,
    BeforeValidator(moment),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "pattern": "^[1-9][0-9]{0,2}[smhd]$"},
                {"type": "number", "minimum": 0, "maximum": LONGEST},
                {"type": "null"},
            ]
        }
    ),
]
Amounts = dict[str, Annotated[float, Field(gt=0, le=MOST_OF_A_BUDGET)]]
Mode = Literal["graceful", "now"]
FlowName = Annotated[str, Field(max_length=100, description="The name of a flow.", examples=["countdown"])]
Reason = Annotated[str, Field(max_length=4000, description="Why; kept with the run.")]


class Submit(Asked):
    """A goal to pursue."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"flow": "countdown", "goal": "count down", "inputs": {"rounds": 3}, "labels": {"team": "search"}, "deadline": 3600}
            ]
        }
    )

    flow: FlowName
    goal: str
    """What to pursue, in words."""
    inputs: dict[str, Any] | None = None
    """What the flow needs beside the goal: `GET /flows/{name}` has their schema."""
    run_id: Annotated[str, Field(pattern=f"^{RUN_ID.pattern}$")] | None = None
    """An id of your own."""
    nonce: Annotated[str, Field(pattern=f"^{NONCE.pattern}$")] | None = None
    """A random text made for this call alone: sent again with the same run_id, because its answer was lost, it gets the run it made."""
    interrupt_before: list[str] | None = None
    """Nodes before which the run pauses for a person; null: the flow's own."""
    interrupt_after: list[str] | None = None
    max_rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS), BeforeValidator(whole)] | None = None
    """Cycles; null: the flow's own."""
    not_before: When = None
    """When it may begin: a time, or seconds from now."""
    deadline: When = None
    """When it must have ended: a time, or seconds from now."""
    thread_id: str | None = None
    """Your name for the conversation it belongs to."""
    labels: dict[str, str] | None = None
    budgets: Amounts | None = None
    """What it may spend: `tokens`, `money`, `seconds`, `cycles`, `commands.NAME`."""
    retry: dict[str, int | float | str | list[str]] | None = None
    """Tightens the flow's retry policies: `max_attempts`, `within` (seconds, `90s`, `10m`), `not_on` (names)."""


class Stop(Asked):
    """How to stop, and why."""

    mode: Mode = "graceful"
    """`graceful`: the round in flight may finish. `now`: stopped when the call returns."""
    reason: Reason | None = None


class Resume(Asked):
    """What is answered to what the run asks; nothing of it to let a stopped or paused run go on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"answer": "approve", "interrupt": "3:1"}, {"add": {"tokens": 50000}}]})

    answer: Any = None
    """Any JSON. An approval takes `"approve"`, `"refuse"`, `{"refuse": "why"}` or `{"edit": {the arguments}}`."""
    add: Amounts | None = None
    """What to add to the limits of the run's budgets, by name."""
    interrupt: Annotated[str, Field(max_length=100)] | None = None
    """The id of what is answered, so that nothing that was asked since is answered unseen."""


class StopMany(Stop):
    """Which runs to stop: those of a flow, a status, or both; one must be given."""

    flow: FlowName | None = None
    status: Literal["queued", "running", "interrupted"] | None = None


class RetryMany(Asked):
    """Which errored runs to take up again."""

    flow: FlowName | None
    """Those of this flow; null, which must be said: of all flows."""


class DeleteMany(Asked):
    """Which ended runs to remove."""

    status: Literal["completed", "errored", "stopped"]
    flow: FlowName | None = None
    older_than_seconds: Annotated[float, Field(ge=0, le=LONGEST), BeforeValidator(as_seconds)] | None = None
    """Only runs to which nothing has happened for so long."""


class PauseFlow(Asked):
    """Why a flow is paused."""

    reason: Reason | None = None


class Place(Known):
    """Where a page begins, and how much it holds."""

    limit: Annotated[int, Field(ge=1, le=MOST)] = 50
    """The most that the page may hold."""
    cursor: str | None = None
    """The cursor of the page before."""


class Listing(Place):
    """Which runs are listed."""

    status: RunStatus | None = None
    """Only runs of this status."""
    flow: FlowName | None = None
    """Only runs of this flow."""
    label: list[Annotated[str, Field(pattern="=", examples=["team=search"])]] = Field(default_factory=list)
    """`NAME=TEXT`: only runs with this label; may be given again."""
