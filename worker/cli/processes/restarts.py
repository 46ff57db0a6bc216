"""The restarts of one supervised process: when the next one is due, and how the last one ended."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Backoff of restarts in seconds: none after the first end, then doubled from the first value up to
#: the second.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


def pause(ends: int) -> float:
    """Return the seconds to wait before the next restart.

    There is no wait after the first end. Then it is one second, and doubles with each of the
    ``ends`` in a row, up to a minute.
    """
    return 0.0 if ends <= 1 else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(ends - 2, 16))


def no_pause(ends: int) -> float:
    """Return 0: the process restarts without a wait.

    ``ends``, the number of ends in a row, makes no difference.
    """
    return 0.0


class Restarts:
    """A process's ends in a row, and its next start.

    Args:
        settled: Seconds after which a process counts as stable. Its end then starts a new count.
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
    """Return the end of a process as text: ``exit code 1`` or ``signal 9``."""
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
