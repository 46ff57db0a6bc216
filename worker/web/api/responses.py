"""Response bodies of the API, as OpenAPI describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import with_config

from perdure.worker.domain.document import CLOSED
from perdure.worker.domain.event import Event
from perdure.worker.domain.fleet import FlowPause
from perdure.worker.domain.run import Page
from perdure.worker.web.api.requests import ResponseBody


@dataclass(frozen=True)
class RunPage(Page):
    """One page of runs, with the counts of all runs."""

    counts: dict[str, int] | None = None
    """Only on the first page: the number of runs of each status, whatever the filter.

    Callers who see only their own runs get the counts of their newest 1,000 runs.
    """

    _later: ClassVar[tuple[str, ...]] = ("counts",)


class Events(ResponseBody):
    """Some events of a run, oldest first."""

    events: list[Event]
    more: bool
    """Whether more events may follow. Ask again with the last event's id as `after`."""


@with_config(CLOSED)
class Paused(FlowPause):
    """The result of pausing a flow."""

    flow: str
    paused: Literal[True]
    new: bool
    """Whether this request paused the flow. false: it was already paused."""


class Unpaused(ResponseBody):
    """The result of unpausing a flow."""

    flow: str
    paused: Literal[False]
    offered: int
    """Number of held runs that were queued again."""


class NamedValue(ResponseBody):
    """One of the values that a run's rounds have returned."""

    name: str
    value: Any


class Up(ResponseBody):
    """The process is up."""

    status: Literal["up"]


class HookReceipt(ResponseBody):
    """The signal is stored."""

    status: Literal["stored"]


class Ready(ResponseBody):
    """The state server answers."""

    status: Literal["ready"]
    workers: int
    """Number of live workers."""


class Message(ResponseBody):
    """One message of a thread."""

    role: Literal["user", "assistant"]
    """`user`: what was sent to the thread. `assistant`: the answer of a run, or how it ended."""
    text: str
    run_id: str
    """`user`: the run that this message started or reached. `assistant`: the run that answered."""
