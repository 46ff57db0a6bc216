"""Receiver of the orders' effects: a file to which each step appends a row.

The row has the order, the step, and the time by a clock that all processes share. Its length is
fixed, so the number of rows is the length of the file. Appending costs every system the same, a few
microseconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: The variable that names the file to a worker.
VARIABLE = "BENCH_RECEIVER"
STEPS = ("charge", "ship", "mail")
#: The step that kills its process after its effect, if it has to.
FATAL = "ship"
#: Bytes of a row.
LENGTH = len(f"{0:08d} {FATAL:6} {0:020d}\n")


@dataclass(frozen=True)
class Effect:
    """One row: a step of an order had its effect, at a time in seconds."""

    number: int
    step: str
    at: float


@dataclass(frozen=True)
class Receiver:
    """The file, as the benchmark reads it."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variable that names the file to a worker."""
        return {VARIABLE: str(self.path)}

    def count(self) -> int:
        """Return the number of rows."""
        return self.path.stat().st_size // LENGTH

    def effects(self) -> list[Effect]:
        """Return the rows, oldest first."""
        rows = (line.split() for line in self.path.read_text().splitlines())
        return [Effect(int(number), step, int(at) / 1e9) for number, step, at in rows]

    def steps_of(self, number: int) -> list[str]:
        """Return an order's steps that had their effect, in order."""
        return [each.step for each in self.effects() if each.number == number]

    def arm(self) -> None:
        """Make the next fatal step kill its process after its effect."""
        _trigger(self.path).touch()

    def is_armed(self) -> bool:
        """Return whether no step has killed its process yet."""
        return _trigger(self.path).exists()


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Make an empty file, and remove it afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="orders-"))
    path = directory / "rows"
    path.touch()
    try:
        yield Receiver(path)
    finally:
        shutil.rmtree(directory)


def add_row(number: int, step: str) -> None:
    """Append a row. The effect of a step; it kills its process if the receiver is armed."""
    os.write(_file(), f"{number:08d} {step:6} {time.monotonic_ns():020d}\n".encode())
    if step == FATAL and _took_trigger():
        os.kill(os.getpid(), signal.SIGKILL)


def _took_trigger() -> bool:
    """Return whether this process took the trigger. Only one can, and only once."""
    try:
        _trigger(Path(os.environ[VARIABLE])).unlink()
    except FileNotFoundError:
        return False
    return True


def _trigger(path: Path) -> Path:
    return path.with_name("armed")


@cache
def _file() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND)
