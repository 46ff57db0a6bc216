"""QueueSeen: one of the broker's queues of rounds, as it was when somebody looked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class QueueSeen:
    """A queue.

    Attributes:
        role: whose rounds wait in it. name: what the broker calls it.
        length: messages in it; None where the broker does not answer.
        pushed, taken: numbers of the newest message pushed, and of the newest that was claimed.
        oldest: seconds that the run of the next message has waited; None where there is none, or it cannot be told.
    """

    role: str
    name: str
    length: int | None
    pushed: int
    taken: int
    oldest: float | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QueueSeen:
        """What ``to_dict`` told of; raises KeyError, TypeError where something is missing."""
        return cls(**{each.name: data[each.name] for each in fields(cls)})

    def to_dict(self) -> dict[str, Any]:
        """It as JSON data."""
        return asdict(self)
