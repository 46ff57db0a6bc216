"""Transcript: a whole run as JSON data, with its history and its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import with_config
from typing_extensions import TypedDict

from perdure.worker.domain.document import CLOSED, OPEN, DescribedBy
from perdure.worker.domain.event import Event
from perdure.worker.domain.run import Run


@with_config(CLOSED)
class SubmitOptions(TypedDict):
    """Options of the submission."""

    interrupt_before: list[str]
    interrupt_after: list[str]
    max_rounds: int | None
    idempotency_key: str | None


@dataclass(frozen=True)
class WholeRun(Run):
    """A run with its options and values."""

    options: SubmitOptions = field(kw_only=True)
    """Options of the submission."""
    values: dict[str, Any] = field(kw_only=True)
    """Values that the run's rounds stored by name."""

    _members: ClassVar[tuple[str, ...]] = (*Run._members, "options", "values")


@with_config(OPEN)
class TranscriptCommand(TypedDict):
    """A command that a controller chose."""

    name: str
    args: dict[str, Any]


@with_config(CLOSED)
class TranscriptTurn(TypedDict):
    """A command and its observation."""

    command: TranscriptCommand | None
    observation: Any


@with_config(CLOSED)
class Transcript(TypedDict):
    """A run with its history and its events."""

    run: Annotated[dict[str, Any], DescribedBy(WholeRun)]
    """The run, with its ``options`` and its named ``values``."""
    history: list[TranscriptTurn]
    """The run's turns, oldest first."""
    events: list[Annotated[dict[str, Any], DescribedBy(Event)]]
    """The run's events, oldest first."""
