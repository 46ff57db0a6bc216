"""What a round may come to: frozen data, made by nodes and flows, mapped to a transition by the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Command:
    """A controller's decision: carry out the command ``name`` with the keyword arguments ``args``.

    ``extras`` keeps what else a reply said (thought, reasoning, plan, criticism, speak). Where a model calls tools, ``call`` is the id
    that it gave to the call (its observation answers that id), and ``part`` the call's place in the reply: 0 begins a reply.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""
    part: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """The goal is met (or given up); ``answer`` is any JSON value."""

    answer: Any = None


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Pause here for a person; the node runs again with the answer, in the same step, under the same key.

    Args:
        reason: a sentence for the person asked.
        data: JSON shown beside it.
        deadline: seconds (or a timedelta, or a text like ``7d``) after which ``default`` answers; None waits for ever.
        default: the answer at the deadline.
    """

    reason: str
    data: Any = None
    deadline: float | timedelta | str | None = None
    default: Any = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of a run's history: the command that was decided and what was observed."""

    command: Command | None
    observation: Any = None


@dataclass(frozen=True, slots=True)
class Advance:
    """The round is done; ``node`` runs next.

    ``turns`` are appended to the history, ``values`` are written over those of the same name.
    ``ends_cycle`` marks the end of one pass over a ring (what ``max_rounds`` counts).
    ``summary`` is a small JSON object for people who watch; it is never read back.
    ``artifacts`` are texts that are kept whole beside the history, by name.
    """

    node: str
    turns: tuple[Turn, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    ends_cycle: bool = False
    summary: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """The run is completed with this answer and output."""

    answer: Any = None
    output: Mapping[str, Any] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


Outcome = Advance | End | Interrupt
