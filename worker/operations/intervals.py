"""Waiting times between two reads of a value that does not exist yet."""

from __future__ import annotations

import time
from collections.abc import Iterator

from perdure.worker.errors import InvalidInput
from perdure.worker.operations import validation

#: Seconds between two reads of a reply or a value: short at first, then longer.
FIRST_LOOK, LAST_LOOK = 0.02, 0.5


def pauses(timeout: float) -> Iterator[float]:
    """Yield the seconds to wait before the next read, until ``timeout`` seconds have passed.

    The waits become longer, up to ``LAST_LOOK``. A timeout of 0 or less yields nothing.
    """
    ends, pause = time.monotonic() + timeout, FIRST_LOOK
    while (left := ends - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 1.5, LAST_LOOK)


def seconds_of(timeout: object) -> float:
    """Return a timeout in seconds.

    Raises:
        InvalidInput: The timeout is neither a number of seconds nor a timedelta. None is not valid
            either.
    """
    seconds = validation.timeout(timeout)
    if seconds is None:
        raise InvalidInput("the timeout is None; expected a number of seconds, or a timedelta")
    return seconds
