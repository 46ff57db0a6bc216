"""The restarts of one supervised process: when the next one is due, and how the last one ended."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Backoff of restarts in seconds: none after the first end, then doubled from the first value up to
#: the second.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


def pause(ends: int) -> float:
    """Return the seconds to wait before the next restart.

    ``ends`` is how often the process ended in a row. There is no wait after the first end. After
    the second it is one second, and it doubles with each further end, up to a minute.
    """
    return 0.0 if ends <= 1 else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(ends - 2, 16))


def no_pause(ends: int) -> float:
    """Return 0: the process restarts without a wait, however often it ended."""
    return 0.0


class Restarts:
    """How often a process ended in a row, and when to start it again.

    Args:
        settled: Seconds after which a process counts as stable. Its end is then the first again.
        pause: Returns the seconds to wait before a restart, from the number of ends in a row.

    Attributes:
        ends: How often the process ended in a row.
        next_start: When to start it again, in monotonic seconds. None while it runs.
    """

    def __init__(self, settled: float, pause: Callable[[int], float]) -> None:
        self._settled = settled
        self._pause = pause
        self._started = 0.0
        self.ends = 0
        self.next_start: float | None = None

    def began(self) -> None:
        """Record that the supervised process was started."""
        self._started, self.next_start = time.monotonic(), None

    def ended(self) -> float:
        """Record the process's end. Return the seconds until its next start."""
        now = time.monotonic()
        self.ends = self.ends + 1 if now - self._started < self._settled else 1
        seconds = self._pause(self.ends)
        self.next_start = now + seconds
        return seconds


def ending(code: int) -> str:
    """Return how a process ended, as text: ``exit code 1`` or ``signal 9``.

    ``code`` is its exit code, or a signal's negative number.
    """
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
