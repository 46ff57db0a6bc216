"""Durations in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``0.35 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``, ``4 d 3 h``."""
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, smaller, its_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {its_name}" if rest else "")
    return f"{whole} s"


def coarse(seconds: float) -> str:
    """The same in one unit, for ages that are looked at again and again: ``0 s``, ``12 s``, ``3 min``, ``2 h``, ``4 d``."""
    whole = int(max(seconds, 0.0))
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if whole >= unit:
            return f"{whole // unit} {name}"
    return "0 s"
