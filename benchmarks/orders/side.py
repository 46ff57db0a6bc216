"""Common parts of the systems that play orders: sessions, and processes that are restarted."""

from __future__ import annotations

import os
import signal
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.orders.receiver import STEPS, Receiver
from benchmarks.processes import family, process
from benchmarks.sides.side import Session, Side

#: The variables of a worker process of plain Celery: the broker's URL, and the seconds after which
#: the broker delivers a message again that no worker acknowledged.
BROKER, VISIBILITY = "BENCH_BROKER", "BENCH_VISIBILITY"


class Processes:
    """Worker processes that are restarted when they end, as a process manager does."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._commands: list[tuple[Sequence[str], Mapping[str, str]]] = []
        self._running = []  # type: ignore[var-annotated]

    @property
    def pids(self) -> list[int]:
        """The processes as they were started first."""
        return [running.pid for running in self._running]

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a process."""
        self._commands.append((command, environment))
        self._running.append(self._stack.enter_context(process(command, **environment)))

    def pause(self) -> None:
        """Stop the processes and their descendants, until ``resume``."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the paused processes."""
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        for pid in family(self.pids):
            os.kill(pid, number)

    def restart_ended(self) -> None:
        """Start ended processes again, with their command and environment."""
        for place, running in enumerate(self._running):
            if running.poll() is not None:
                command, environment = self._commands[place]
                self._running[place] = self._stack.enter_context(process(command, **environment))


@dataclass(kw_only=True)
class OrderSession(Session):
    """A system that is ready for orders. The receiver has their effects.

    Attributes:
        receiver: Gets the effects.
        processes: The worker processes.
        placed: Orders that were placed.
    """

    receiver: Receiver
    processes: Processes
    placed: int = 0

    def start(self, runs: int) -> None:
        for _ in range(runs):
            self.place()

    def place(self) -> int:
        """Submit the next order, and return its number."""
        self.placed += 1
        self.submit(self.placed)
        return self.placed

    @abstractmethod
    def submit(self, number: int) -> None:
        """Send an order to the system."""

    def ended(self) -> int:
        return self.receiver.count() // len(STEPS)

    def rounds(self) -> int:
        return self.receiver.count()

    def is_asking(self, number: int) -> bool:
        """Return whether the system asks about this order. Only Perdure can ask a person."""
        return False

    def tell_done(self, number: int) -> None:
        """Answer that the step in question has happened."""
        raise NotImplementedError

    def is_lost(self) -> bool:
        """Return whether the system has nothing left to play."""
        return False

    def settle(self) -> None:
        """Wait until no effect can be repeated any more."""


@dataclass(frozen=True)
class OrderSide(Side):
    """A system that plays orders.

    Attributes:
        example: The module with its user's code.
        visibility: For a broker that delivers unacknowledged messages again: after how many
            seconds. None for the default.
    """

    example: str
    visibility: float | None = None
    EXAMPLES: ClassVar = "benchmarks.orders.examples"

    @property
    def module(self) -> str:
        """The full name of the example."""
        return f"{self.EXAMPLES}.{self.example}"
