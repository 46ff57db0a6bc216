"""Verdict: why a run is in its state. Finding: the result of one check of the doctor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from perdure.worker.domain.document import Document


class VerdictCode(Enum):
    """Codes of the states in which a run can be found.

    docs/operations/runbook.md has a section on each.
    """

    IN_LINE = "in-line"
    LEASED = "leased"
    BACKING_OFF = "backing-off"
    WAITING_FOR_A_PROVIDER = "waiting-for-a-provider"
    CODE_DOES_NOT_FIT = "code-does-not-fit"
    SLEEPING = "sleeping"
    WAITING_FOR_A_SIGNAL = "waiting-for-a-signal"
    WAITING_FOR_CHILDREN = "waiting-for-children"
    WAITING_FOR_A_BUDGET = "waiting-for-a-budget"
    WAITING_FOR_A_PERSON = "waiting-for-a-person"
    HELD_AFTER_STOP_NOW = "held-after-stop-now"
    UNKNOWN_FLOW = "no-worker-knows-the-flow"
    NO_WORKER = "no-worker-for-the-role"
    FLOW_NOT_ENABLED = "flow-not-enabled"
    FLOW_PAUSED = "flow-paused"
    LOSSES = "losses"
    QUARANTINED = "quarantined"
    MESSAGE_LOST = "message-lost"
    SERVER_SILENT = "server-silent"
    ENDED = "ended"


#: Verdicts that need no action: the run continues by itself or waits on purpose.
MOVING = (
    VerdictCode.IN_LINE,
    VerdictCode.LEASED,
    VerdictCode.SLEEPING,
    VerdictCode.WAITING_FOR_A_SIGNAL,
    VerdictCode.WAITING_FOR_CHILDREN,
    VerdictCode.WAITING_FOR_A_BUDGET,
    VerdictCode.WAITING_FOR_A_PERSON,
    VerdictCode.HELD_AFTER_STOP_NOW,
    VerdictCode.MESSAGE_LOST,
)


@dataclass(frozen=True)
class Verdict(Document):
    """Why a run is in its current state."""

    code: VerdictCode
    """The state's code. Programs and docs/operations/runbook.md use it too."""
    sentence: str
    """What is happening and what to do, for people."""
    since: datetime | None = None
    """When the run entered this state. Not set if no stored data says it."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The facts behind the sentence, as JSON data.

    Times are ISO 8601 texts, durations are in seconds.
    """


class Level(Enum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    #: The guarantees do not hold, and workers do not start. Or the server refuses writes now.
    REFUSED = "refused"
    #: The state server does not report what the check needs. Its operator knows it.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding(Document):
    """The result of one check of the doctor."""

    check: str
    """Name of the check."""
    level: Level
    """Severity."""
    sentence: str
    """What the check found."""
    remedy: str = ""
    """What to do about it. Empty if the check passed."""

    def __str__(self) -> str:
        return f"{self.check}: {self.sentence}" + (f". {self.remedy}" if self.remedy else "")


def ok(check: str, sentence: str) -> Finding:
    """Return the finding that a check of the doctor passed."""
    return Finding(check, Level.OK, sentence)


def warning(check: str, sentence: str, remedy: str) -> Finding:
    """Return the finding that something weakens Perdure's guarantees."""
    return Finding(check, Level.WARNING, sentence, remedy)


def refused(check: str, sentence: str, remedy: str) -> Finding:
    """Return the finding that Perdure's guarantees do not hold now."""
    return Finding(check, Level.REFUSED, sentence, remedy)


def unknown(check: str, sentence: str, remedy: str) -> Finding:
    """Return the finding that the state server hides the needed data."""
    return Finding(check, Level.UNKNOWN, sentence, remedy)
