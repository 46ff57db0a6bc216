"""Waiting for a condition with a bound. wait_report.py lists waits that came near their bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

#: Seconds between two looks.
PAUSE = 0.005
#: The bound of work that a test does itself, round by round. It is just below pytest's limit, since
#: it only has to end an endless loop: a busy machine may be slow.
WORK = 110.0
#: Part of its bound after which a wait is reported.
NEAR = 0.5


class SlowWait(NamedTuple):
    """A wait that came near its bound, in seconds, or a command that was repeated."""

    what: str
    seconds: float
    bound: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s of {self.bound:.0f} s for {self.what}"


#: Slow waits of the test that runs in this process.
SLOW: list[SlowWait] = []


def until(holds: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait until ``holds()``.

    Args:
        what: The awaited event, as a noun phrase.
        seconds: The bound.

    Raises:
        AssertionError: It does not hold in time.
    """
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"waited {seconds:.0f} s in vain for: {what}")
        time.sleep(PAUSE)
    report_wait(what, time.monotonic() - began, seconds)


def report_wait(what: str, seconds: float, bound: float) -> None:
    """List a wait in the summary of the run if it came near its bound."""
    if seconds > NEAR * bound:
        SLOW.append(SlowWait(what, seconds, bound))
