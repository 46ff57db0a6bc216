"""The restarts of a supervised process, with backoff."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Backoff of restarts in seconds: none after the first end, then doubled from the first value up to
#: the second.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


def pause(ends: int) -> float:
    """Return the seconds to wait before the next restart: exponential backoff.

    ``ends`` is the number of ends in a row. There is no wait after the first end. After the second
    it is FIRST_PAUSE, and it doubles with each further end, up to LONGEST_PAUSE.
    """
    return 0.0 if ends <= 1 else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(ends - 2, 16))


def no_pause(ends: int) -> float:
    """Return 0: the process restarts without a wait. ``ends`` is ignored."""
    return 0.0


class Restarts:
    """The restarts of a supervised process: how many, and the next one.

    Args:
        settled: Seconds after which a process counts as stable. If it ends later, the count starts
            again at 1.
        pause: Takes the number of ends in a row, and returns the seconds to wait before a restart.

    Attributes:
        ends: The number of ends in a row.
        next_start: The time of the next start, in monotonic seconds. None while the process runs.
    """

    def __init__(self, settled: float, pause: Callable[[int], float]) -> None:
        self._settled = settled
        self._pause = pause
        self._started = 0.0
        self.ends = 0
        self.next_start: float | None = None

    def began(self) -> None:
        """Record that the process was started."""
        self._started, self.next_start = time.monotonic(), None

    def ended(self) -> float:
        """Record that the process ended. Return the seconds until its next start."""
        now = time.monotonic()
        self.ends = self.ends + 1 if now - self._started < self._settled else 1
        seconds = self._pause(self.ends)
        self.next_start = now + seconds
        return seconds


def ending(code: int) -> str:
    """Return a process's end as text: ``exit code 1`` or ``signal 9``.

    ``code`` is the exit code of the process, or the negative number of the signal that ended it.
    """
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
