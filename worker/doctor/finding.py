"""Finding: what one check of the doctor came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    #: With this the promises do not hold; workers do not start.
    REFUSED = "refused"
    #: The server does not tell. Whoever runs it knows.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One row of what the doctor found: which check, how bad, what is, and (unless all is well) what to do about it."""

    check: str
    level: Level
    sentence: str
    remedy: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Finding:
        """The finding that ``to_dict`` told of; raises KeyError, ValueError where something is missing or cannot be."""
        return cls(data["check"], Level(data["level"]), data["sentence"], data["remedy"])

    def to_dict(self) -> dict[str, str]:
        """The finding as JSON data."""
        return {"check": self.check, "level": self.level.value, "sentence": self.sentence, "remedy": self.remedy}

    def __str__(self) -> str:
        return f"{self.check}: {self.sentence}" + (f". {self.remedy}" if self.remedy else "")


def ok(check: str, sentence: str) -> Finding:
    return Finding(check, Level.OK, sentence)


def warning(check: str, sentence: str, remedy: str) -> Finding:
    return Finding(check, Level.WARNING, sentence, remedy)


def refused(check: str, sentence: str, remedy: str) -> Finding:
    return Finding(check, Level.REFUSED, sentence, remedy)


def unknown(check: str, sentence: str, remedy: str) -> Finding:
    return Finding(check, Level.UNKNOWN, sentence, remedy)
