"""Numbers in words: any number that a run can hold prints, however large or small it is."""

from __future__ import annotations

from decimal import Decimal

#: The largest share that is drawn or told. A run may spend any multiple of a tiny budget.
MOST_SHARE = 1000.0
#: From here on a number is told in powers of ten. Floats are exact up to here.
EXACT = 10**15


def figure(value: float) -> str:
    """Return a number in a few characters: ``3``, ``0.25``, ``1e+400``."""
    return f"{value:g}" if abs(value) < EXACT else f"{Decimal(value).normalize():.6g}"


def share(part: float, whole: float) -> float:
    """Return ``part / whole``, from 0 to ``MOST_SHARE``. It is 0 where the whole is 0 or less."""
    if whole <= 0 or part <= 0:
        return 0.0
    try:
        return min(part / whole, MOST_SHARE)
    except OverflowError:
        return MOST_SHARE if part > whole else 0.0


def percent(part: float, whole: float) -> str:
    """Return the share in percent: ``82 %``, or ``over 100,000 %``."""
    found = share(part, whole)
    return f"over {100 * MOST_SHARE:,.0f} %" if found >= MOST_SHARE else f"{100 * found:.0f} %"


def progress_of(told: object) -> str:
    """Return ``3 of 5`` for a round's progress, or '' where it names no total."""
    if not isinstance(told, dict):
        return ""
    done, total = told.get("done"), told.get("total")
    if not isinstance(done, int | float) or not isinstance(total, int | float) or not total:
        return ""
    return f"{figure(done)} of {figure(total)}"
