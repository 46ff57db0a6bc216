"""Side: one way to play the rounds, with servers and workers of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.redis_server import RedisServer
from benchmarks.tally import Tally
from benchmarks.work import Work


@dataclass
class Session(ABC):
    """A side that is up: its servers run, its workers are ready.

    Attributes:
        workers: process ids whose CPU time, and that of all they started, is the workers'.
        servers: the same for what keeps the state.
        redis: where the server is a Redis: it tells more.
        every: seconds between two looks at how many runs have ended; a look must cost nothing beside the work.
    """

    workers: list[int]
    servers: list[int]
    redis: RedisServer | None = None
    every: float = 0.002

    @abstractmethod
    def start(self, runs: int) -> None:
        """Start so many runs; returns once they are handed over."""

    @abstractmethod
    def ended(self) -> int:
        """How many have ended since the side was up."""

    @abstractmethod
    def rounds(self) -> int:
        """How many rounds those that ended really had, counted where they happened; called outside of the clock."""


@dataclass(frozen=True)
class Side(ABC):
    """One way to play the rounds.

    Attributes:
        name: unique; tells what differs from the other sides of its system.
        share: how many of the work's runs it plays, as a part: a side that takes long says as much with fewer.
    """

    name: str
    share: ClassVar[float] = 1.0

    @abstractmethod
    def missing(self) -> str | None:
        """Why it cannot be measured here; None where it can."""

    @abstractmethod
    def up(self, work: Work, tally: Tally) -> AbstractContextManager[Session]:
        """Start servers and workers, which tell the tally; end them afterwards."""
