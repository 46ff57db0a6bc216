"""Common parts of the sides whose workers report the ends of their runs themselves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec

from benchmarks.sides.side import Session
from benchmarks.tally import Tally, tell_ready
from benchmarks.work import Work

#: The number of this worker process, from 0.
NUMBER = "BENCH_NUMBER"
PROCESSES = "BENCH_PROCESSES"


@dataclass
class Told(Session):
    """Workers that report to the tally.

    Attributes:
        begin: Starts that many runs.
    """

    tally: Tally | None = None
    work: Work | None = None
    begin: Callable[[int], None] = field(default=lambda runs: None)

    def start(self, runs: int) -> None:
        self.begin(runs)

    def ended(self) -> int:
        assert self.tally is not None
        return self.tally.ended

    def rounds(self) -> int:
        assert self.tally is not None
        return self.tally.rounds


def lacking(*modules: str) -> str | None:
    """Return a sentence about missing modules of the extra.

    The result is None if all are installed.
    """
    absent = [name for name in modules if find_spec(name.split(".")[0]) is None]
    return f"not installed: {', '.join(absent)} (pip install 'perdure[bench]')" if absent else None


def number() -> int:
    """Return the number of this worker process, from 0."""
    return int(os.environ[NUMBER])


def stay() -> None:
    """Report that this worker is ready. Wait until it is killed."""
    tell_ready()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Event().wait()
