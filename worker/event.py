"""Event: one entry of a run's event stream, which is its commit log and everything else that happened to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from worker.errors import DamagedRun

#: After one of these nothing follows, unless somebody resumes or retries the run.
LAST = ("completed", "errored", "stopped")
#: Fields of a stream entry that are not data.
FRAME = ("type", "at", "step", "attempt", "node")
#: Fields whose text is JSON.
JSON = ("data", "answer")


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    ``id`` orders the events of a run and can be passed back as ``after``. ``type`` is one of: submitted, committed, interrupted,
    resumed, stop_requested, stopped, completed, errored, retried, failed, waits, lost, resent, given_back, handed_on.
    """

    id: str
    type: str
    at: datetime
    step: int
    attempt: int
    node: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, entry_id: str, entry: Mapping[str, str]) -> Event:
        """The event that a stream entry holds; raises DamagedRun where it holds none."""
        try:
            return cls._read(entry_id, entry)
        except (ValueError, LookupError, OverflowError, RecursionError) as error:
            raise DamagedRun(f"the entry {entry_id} of a run's events is no event: {type(error).__name__}: {error}") from error

    @classmethod
    def _read(cls, entry_id: str, entry: Mapping[str, str]) -> Event:
        data: dict[str, Any] = {}
        for name, text in entry.items():
            if name in JSON:
                value = json.loads(text)
                data |= value if name == "data" and isinstance(value, dict) else {} if value is None else {name: value}
            elif name not in FRAME and text != "":
                data[name] = text
        at = datetime.fromtimestamp(int(entry["at"]) / 1000, UTC)
        return cls(entry_id, entry["type"], at, int(entry["step"]), int(entry["attempt"]), entry["node"], data)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Event:
        """The event that ``to_dict`` told of; raises KeyError, ValueError where something is missing or cannot be."""
        at = datetime.fromisoformat(data["at"])
        return cls(data["id"], data["type"], at, data["step"], data["attempt"], data["node"], data["data"])

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON data."""
        return {
            "id": self.id,
            "type": self.type,
            "at": self.at.isoformat(),
            "step": self.step,
            "attempt": self.attempt,
            "node": self.node,
            "data": dict(self.data),
        }
