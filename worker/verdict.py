"""Verdict: why a run does not move, or does: one code, one sentence, since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any


class VerdictCode(Enum):
    """What a run can be found in; docs/runbook.md has a section on each."""

    IN_LINE = "in-line"
    LEASED = "leased"
    BACKING_OFF = "backing-off"
    WAITING_FOR_A_PROVIDER = "waiting-for-a-provider"
    SLEEPING = "sleeping"
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


@dataclass(frozen=True)
class Verdict:
    """Why a run is where it is.

    Attributes:
        code: one word for it, the same for programs and for docs/runbook.md.
        sentence: what is, and what to do, for people.
        since: since when the run has been so; None where nothing that was stored says it.
        details: the facts behind the sentence, as JSON data (times as ISO texts, durations in seconds).
    """

    code: VerdictCode
    sentence: str
    since: datetime | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict that ``to_dict`` told of; raises KeyError, ValueError where something is missing or cannot be."""
        since = datetime.fromisoformat(data["since"]) if data["since"] else None
        return cls(VerdictCode(data["code"]), data["sentence"], since, data["details"])

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON data."""
        since = self.since.isoformat() if self.since else None
        return {"code": self.code.value, "sentence": self.sentence, "since": since, "details": dict(self.details)}
