"""Validation of the arguments of waits: names of signals, topics, durations and times."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from perdure.flows.core.durations import EXPECTED, as_seconds
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.names import TOPIC, is_name

#: Longest wait in seconds: ten years. Times must stay whole numbers that Lua counts exactly.
LONGEST = 10 * 365.25 * 86_400


def checked_signal(name: str) -> str:
    """Validate the name of a signal, and return it.

    Raises:
        InvalidFlow: the name is not valid.
    """
    if not isinstance(name, str) or not is_name(name):
        raise InvalidFlow(
            f"{name!r} is no name for a signal; expected letters, digits, '_', '.' or '-', "
            "at most 100"
        )
    return name


def checked_topic(topic: str) -> str:
    """Validate a topic, and return it.

    Raises:
        InvalidFlow: the topic is not valid.
    """
    if not isinstance(topic, str) or not TOPIC.fullmatch(topic):
        raise InvalidFlow(
            f"{topic!r:.300} is no topic; expected letters, digits and _ . : @ + -, at most 200, a "
            "letter or digit first"
        )
    return topic


def seconds_until(when: datetime, now: datetime) -> float:
    """Return the seconds from ``now`` until ``when``. 0 if ``when`` has passed.

    Raises:
        InvalidFlow: ``when`` has no time zone.
    """
    if when.tzinfo is None:
        raise InvalidFlow(f"until({when!r}): expected a time with a time zone")
    return max(0.0, (when - now).total_seconds())


def checked_seconds(value: float | timedelta | str) -> float:
    try:
        seconds = as_seconds(value)
    except ValueError as error:
        raise InvalidFlow(str(error)) from None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidFlow(f"{value!r} is not a duration; expected {EXPECTED}")
    if not (math.isfinite(seconds) and 0 <= seconds <= LONGEST):
        raise InvalidFlow(f"a wait of {value!r} seconds: expected 0 to {LONGEST:.0f} (ten years)")
    return float(seconds)
