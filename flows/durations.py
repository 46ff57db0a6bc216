"""Durations as people write them: ``50ms``, ``90s``, ``10m``, ``1h30m``, ``7d``, ISO 8601 (``PT10M``, ``P7D``), or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
EXPECTED = "a duration like 90s, 10m, 1h30m or 7d, one of ISO 8601 like PT10M, or a number of seconds"
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|[smhdw])", re.ASCII)
_SHORT = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_ISO = re.compile(
    r"P(?=.)(?:(?P<w>\d{1,9})W)?(?:(?P<d>\d{1,9})D)?(?:T(?=.)(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)


def seconds_of(text: str) -> float:
    """Return the seconds that a text stands for; raises ValueError."""
    given = text.strip()
    if _NUMBER.fullmatch(given):
        return float(given)
    if _SHORT.fullmatch(given):
        return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(given))
    found = _ISO.fullmatch(given.upper())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no duration; expected {EXPECTED}")
    return sum(float(number) * UNITS[unit] for unit, number in found.groupdict().items() if number)


def as_seconds(given: Any) -> Any:
    """Return the seconds of a text or a timedelta, and anything else as it is, for whoever checks numbers; raises ValueError."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    return seconds_of(given) if isinstance(given, str) else given


def is_duration(text: str) -> bool:
    """Return whether the text is one."""
    try:
        seconds_of(text)
    except ValueError:
        return False
    return True
