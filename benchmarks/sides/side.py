"""Sides: ways to play the rounds, each with its own servers and workers."""

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
    """A side that is up: its servers run, and its workers are ready.

    Attributes:
        workers: Process ids whose CPU time, with that of all they started, is the workers'.
        servers: The same for the programs that store the state.
        redis: The server, if it is a Redis, because that reports more.
        every: Seconds between two checks of how many runs have ended. A check must cost almost
            nothing compared with the work.
    """

    workers: list[int]
    servers: list[int]
    redis: RedisServer | None = None
    every: float = 0.002

    @abstractmethod
    def start(self, runs: int) -> None:
        """Start ``runs`` runs, and return when they are submitted."""

    @abstractmethod
    def ended(self) -> int:
        """Count the runs that have ended since the start."""

    @abstractmethod
    def rounds(self) -> int:
        """Count the rounds that the ended runs really had.

        They are counted where they happened. It is called after the clock has stopped.
        """


@dataclass(frozen=True)
class Side(ABC):
    """One way to play the rounds.

    Attributes:
        name: Unique; it says how this differs from the other sides of its system.
        share: The part of the work's runs that it plays: for a slow side, fewer runs are enough.
    """

    name: str
    share: ClassVar[float] = 1.0

    @abstractmethod
    def missing(self) -> str | None:
        """Return why it cannot be measured here. The result is None if it can."""

    @abstractmethod
    def up(self, work: Work, tally: Tally) -> AbstractContextManager[Session]:
        """Start servers and workers. They report to the tally, and are stopped afterwards."""
