"""Request bodies and parameters of the API, for OpenAPI.

The base class of response bodies and the model of an error are here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from perdure.flows.core.budgets import MOST as MOST_OF_A_BUDGET
from perdure.flows.core.durations import is_duration, seconds_of
from perdure.flows.core.files import MOST_FILES, MOST_OF_A_NAME
from perdure.flows.core.names import TOPIC, suggest
from perdure.worker.domain.error_groups import LOOKED_AT, MOST_LOOKED
from perdure.worker.domain.query_line import MOST_CHARACTERS
from perdure.worker.domain.run import RunStatus
from perdure.worker.domain.settlement import LONGEST
from perdure.worker.ids import RUN_ID
from perdure.worker.operations.validation import KEPT, MOST_KEPT, NONCE
from perdure.worker.web.auth.permissions import MAX_PAGE_SIZE


class ResponseBody(BaseModel):
    """A response body: exactly these fields, no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Known(BaseModel):
    """A request's fields.

    An unknown field is an error, which names the known field with the most similar name.
    """

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _only_known(cls, fields: Any) -> Any:
        unknown = (
            [name for name in fields if name not in cls.model_fields]
            if isinstance(fields, Mapping)
            else []
        )
        if unknown:
            raise ValueError(
                f"unknown field {unknown[0]!r:.100}; {suggest(unknown[0], cls.model_fields)}"
            )
        return fields


class Asked(Known):
    """A request body. Values are not converted: a string is not accepted as a number."""

    model_config = ConfigDict(strict=True)


class PerdureProblem(BaseModel):
    """An error, as problem details (RFC 9457).

    The name of the class begins with Perdure because an app that includes the router may have a
    `Problem` of its own.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str = Field(examples=["urn:perdure:run-not-found"])
    """The kind of error, for programs."""
    title: str
    """The kind of error, for people."""
    status: int = Field(ge=400, le=599)
    """The HTTP status of the response."""
    detail: str
    """What was expected, what was sent, and what to do."""
    run: str = ""
    """The run's id, if the path names a run."""
    holder: str = ""
    """For `taken`: the id of the live run that holds the topic."""
    faults: list[dict[str, str]] = Field(default_factory=list)
    """For `invalid-request`: each fault (`problem`) and its location (`at`)."""


#: Largest limit of cycles: practically no limit, and every JSON parser reads the number exactly.
MOST_ROUNDS = 10**9


def moment(value: object) -> object:
    """Validate a time in a request, and return it as a datetime or as seconds from now.

    A text must be in ISO 8601 with a time zone, or a duration from now such as ``10m``. A number of
    seconds and None are returned unchanged.

    Raises:
        ValueError: The value is none of these, or is more than ten years from now.
    """
    if isinstance(value, str) and is_duration(value):
        value = seconds_of(value)
    if isinstance(value, str):
        try:
            moment_sent = datetime.fromisoformat(value)
        except ValueError as error:
            raise ValueError(
                "expected a time such as 2026-11-22T08:00:00+01:00, a duration such as 10m, "
                f"or seconds from now; got {value[:40]!r}"
            ) from error
        if moment_sent.tzinfo is None:
            raise ValueError(
                f"expected a time zone, such as {value}Z or {value}+01:00; got {value!r}"
            )
        return moment_sent
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST
    ):
        raise ValueError(
            f"expected an ISO 8601 time, or seconds from now: from 0 to {LONGEST:.0f} (ten years)"
        )
    return value


def whole(value: object) -> object:
    """Return a number such as 3.0 as the integer 3, because JSON does not distinguish them.

    Return other values unchanged.
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
FlowName = Annotated[
    str, Field(max_length=100, description="The name of a flow.", examples=["countdown"])
]
Reason = Annotated[str, Field(max_length=4000, description="The reason, stored with the run.")]


Topic = Annotated[
    str,
    Field(
        pattern=f"^{TOPIC.pattern}$",
        description="A topic of the caller's own runs.",
        examples=["order:4711"],
    ),
]


class SubmittedFile(Asked):
    """A file that is submitted with a run."""

    name: Annotated[str, Field(min_length=1, max_length=MOST_OF_A_NAME)]
    """Its name, without folders."""
    data: str
    """Its bytes, as base64."""
    media_type: Annotated[str, Field(min_length=1, max_length=150)] | None = None
    """Its media type, `image/png` for example. null: it follows from the content or the name."""


class Submit(Asked):
    """A run to submit."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "flow": "countdown",
                    "goal": "count down",
                    "inputs": {"rounds": 3},
                    "labels": {"team": "search"},
                    "deadline": 3600,
                }
            ]
        }
    )

    flow: FlowName
    goal: str | None = None
    """What the run should achieve, in words. null: for a flow that needs no goal."""
    inputs: dict[str, Any] | None = None
    """The flow's inputs. `GET /flows/{name}` returns their schema."""
    run_id: Annotated[str, Field(pattern=f"^{RUN_ID.pattern}$")] | None = None
    """An id of your own."""
    nonce: Annotated[str, Field(pattern=f"^{NONCE.pattern}$")] | None = None
    """A random text for this call alone.

    If the response was lost, repeat the call with the same nonce and run_id: it returns the run
    that the first call created.
    """
    interrupt_before: list[str] | None = None
    """Nodes before which the run pauses for a person. null: those of the flow."""
    interrupt_after: list[str] | None = None
    """Nodes after which the run pauses for a person. null: those of the flow."""
    max_rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS), BeforeValidator(whole)] | None = None
    """Maximum number of cycles. null: the flow's limit."""
    not_before: When = None
    """Earliest start: a time, or seconds from now."""
    deadline: When = None
    """Time by which the run must have ended: a time, or seconds from now."""
    thread_id: str | None = None
    """Your name for the conversation that the run belongs to."""
    topic: Topic | None = None
    """A name of your own, of an order for example, for which the run gets signals.

    One live run holds a topic of yours.
    """
    model: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """The model that the run asks, one of the flow's `allowed_models`. null: the flow's own."""
    files: Annotated[list[SubmittedFile], Field(max_length=MOST_FILES)] | None = None
    """Pictures, documents and texts that a model sees with the goal."""
    labels: dict[str, str] | None = None
    budgets: Amounts | None = None
    """Limits on `tokens`, `money`, `seconds`, `cycles` and `commands.NAME`."""
    retry: dict[str, int | float | str | list[str]] | None = None
    """Stricter limits for the flow's retry policies.

    Keys: `max_attempts`, `within` (seconds, `90s`, `10m`), `not_on` (error names).
    """


class ForkOne(Asked):
    """A fork of a run: the first step that runs again, and the differences from the other run."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"at": 16, "inputs": {"city": "Bergen"}}]}
    )

    at: Annotated[int, Field(ge=0, lt=10**15), BeforeValidator(whole)]
    """The first step that runs again. The fork takes over the turns of the rounds before it."""
    goal: str | None = None
    """null: the goal of the other run."""
    inputs: dict[str, Any] | None = None
    """Inputs that replace the other run's inputs of the same names."""
    values: dict[str, Any] | None = None
    """The values that the run had remembered before the step.

    Needed if the run remembers values and the step is not its newest.
    """
    run_id: Annotated[str, Field(pattern=f"^{RUN_ID.pattern}$")] | None = None
    """An id of your own."""
    nonce: Annotated[str, Field(pattern=f"^{NONCE.pattern}$")] | None = None
    """A random text for this call alone, as for a submission."""
    interrupt_before: list[str] | None = None
    """Nodes before which the run pauses for a person. null: those of the other run."""
    interrupt_after: list[str] | None = None
    """Nodes after which the run pauses for a person. null: those of the other run."""
    max_rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS), BeforeValidator(whole)] | None = None
    """Maximum number of cycles that the fork itself runs. null: that of the other run."""
    not_before: When = None
    """Earliest start: a time, or seconds from now."""
    deadline: When = None
    """Time by which the run must have ended: a time, or seconds from now."""
    thread_id: str | None = None
    """Your name for the conversation that the run belongs to."""
    model: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """The model that the run asks. null: that of the other run."""
    labels: dict[str, str] | None = None
    """null: those of the other run."""
    budgets: Amounts | None = None
    """Limits of what the fork itself spends. null: those of the other run."""
    retry: dict[str, int | float | str | list[str]] | None = None
    """Stricter limits for the flow's retry policies. null: those of the other run."""


class Stop(Asked):
    """How to stop, and why."""

    mode: Mode = "graceful"
    """`graceful`: the round in flight may finish.

    `now`: the run is stopped when the call returns.
    """
    reason: Reason | None = None
    children: bool = True
    """Stop its child runs too. If false, those that have been started go on."""


class RetryOne(Asked):
    """Which child runs to retry with the run."""

    children: bool = True
    """Retry first those of its children that errored and that the failed step waited for."""


class Signal(Asked):
    """The payload of a signal."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"payload": {"amount": 12}}]})

    payload: Any = None
    """Any JSON."""


class Keep(Known):
    """How long a signal to a topic is kept."""

    keep: Annotated[float, Field(gt=0, le=MOST_KEPT)] = KEPT
    """Seconds for which the signal waits for a run, if none holds the topic."""


class Resume(Asked):
    """The answer to the run's question. Omit it to resume a stopped or paused run."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"answer": "approve", "interrupt": "3:1"}, {"add": {"tokens": 50000}}]
        }
    )

    answer: Any = None
    """The answer, as any JSON.

    An approval takes `"approve"`, `"refuse"`, `{"refuse": "why"}` or `{"edit": {the arguments}}`.
    """
    add: Amounts | None = None
    """Amounts to add to the limits of the run's budgets, by name."""
    interrupt: Annotated[str, Field(max_length=100)] | None = None
    """The id of the question that is answered.

    With it, the answer never applies to a newer question.
    """


class Limits(Asked):
    """Amounts to add to the limits of a run's budgets."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"add": {"tokens": 50000}}]})

    add: Amounts
    """Amounts by the name of the budget."""


class PauseFlow(Asked):
    """The reason for pausing a flow."""

    reason: Reason | None = None


class Place(Known):
    """A page's start and size."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 50
    """Maximum number of items on the page."""
    cursor: str | None = None
    """The cursor that the previous page returned."""


class InboxPlace(Place):
    """A page of the inbox."""

    below: str | None = None
    """Only runs below this run: its children, their children, and so on."""


class Listing(Place):
    """Filters of the list of runs."""

    status: RunStatus | None = None
    """Only runs of this status."""
    flow: FlowName | None = None
    """Only runs of this flow."""
    label: list[Annotated[str, Field(pattern="=", examples=["team=search"])]] = Field(
        default_factory=list
    )
    """`NAME=TEXT`: only runs with this label. Repeat it for more labels."""
    children: bool = False
    """Child runs too, which are left out otherwise."""
    parent: str | None = None
    """Only the children of this run, in the order of their start."""
    thread_id: str | None = None
    """Only runs of this thread."""
    q: Annotated[
        str,
        Field(max_length=MOST_CHARACTERS, examples=['status:errored submitted:<1d "nightly"']),
    ] = ""
    """A query line: `key:value` and words, as on the dashboard's page of runs."""


class ErrorListing(Known):
    """Which errored runs to group."""

    flow: FlowName | None = None
    """Only runs of this flow."""
    q: Annotated[str, Field(max_length=MOST_CHARACTERS, examples=["ended:<1d label:team=a"])] = ""
    """A query line, as of `GET /runs`."""
    look: Annotated[int, Field(ge=1, le=MOST_LOOKED)] = LOOKED_AT
    """Maximum number of errored runs to look at, newest first."""


class Deletion(Known):
    """What to delete with a run."""

    tree: bool = False
    """The runs below it too. If one of them is live, none is deleted."""
