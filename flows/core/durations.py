"""Durations: conversion of texts to seconds, and of seconds to texts for people.

Accepted texts are ``50ms``, ``90s``, ``10m``, ``1h30m``, ``7d``, ISO 8601 (``PT10M``, ``P7D``), and
a number of seconds.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
EXPECTED = "a duration like 90s, 10m, 1h30m or 7d, in ISO 8601 like PT10M, or a number of seconds"
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|[smhdw])", re.ASCII)
_SHORT = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_ISO = re.compile(
    r"P(?=.)(?:(?P<w>\d{1,9})W)?(?:(?P<d>\d{1,9})D)?(?:T(?=.)(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)


def seconds_of(text: str) -> float:
    """Parse a duration (``90s``, ``1h30m``, ``PT10M``, or a number of seconds) to seconds.

    Raises:
        ValueError: ``text`` is not a duration.
    """
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped):
        return float(stripped)
    if _SHORT.fullmatch(stripped):
        return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(stripped))
    iso_match = _ISO.fullmatch(stripped.upper())
    if iso_match is None:
        raise ValueError(f"{text[:40]!r} is not a duration; expected {EXPECTED}")
    return sum(
        float(number) * UNITS[unit] for unit, number in iso_match.groupdict().items() if number
    )


def as_seconds(value: Any) -> Any:
    """Convert a text or a ``timedelta`` to seconds. Return any other value unchanged.

    The caller validates that the result is a number.

    Raises:
        ValueError: ``value`` is a text but not a duration.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    return seconds_of(value) if isinstance(value, str) else value


def is_duration(text: str) -> bool:
    """Return whether a text is a duration like ``90s``."""
    try:
        seconds_of(text)
    except ValueError:
        return False
    return True


def duration(seconds: float) -> str:
    """Format seconds for people, in at most two units. A negative number counts as 0.

    Examples: ``0.35 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``, ``4 d 3 h``.
    """
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, smaller, its_name in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {its_name}" if rest else "")
    return f"{whole} s"


def coarse(seconds: float) -> str:
    """Format seconds for people in one unit, rounded down. A negative number counts as 0.

    It is for ages that a display updates again and again. Examples: ``0 s``, ``12 s``, ``3 min``,
    ``2 h``, ``4 d``.
    """
    whole = int(max(seconds, 0.0))
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if whole >= unit:
            return f"{whole // unit} {name}"
    return "0 s"
