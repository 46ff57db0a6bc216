"""Texts for people: times, counts, and texts of others without control characters.

Every number that a run can hold can be formatted, however large or small.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from perdure.flows.core.durations import duration as duration  # noqa: PLC0414  words for people are found here

#: Largest share of a budget that is shown. A run may spend any multiple of a tiny budget.
MOST_SHARE = 1000.0
#: Numbers from here on are shown in powers of ten. Floats are exact up to here.
EXACT = 10**15


def figure(value: float) -> str:
    """Return a number with at most six significant digits: ``3``, ``0.25``, ``1e+400``."""
    return f"{value:g}" if abs(value) < EXACT else f"{Decimal(value).normalize():.6g}"


def memory_text(size: object) -> str:
    """Return an amount of bytes in MiB or GiB. '' if it is no number, or 0 or less."""
    if not isinstance(size, int | float) or size <= 0:
        return ""
    mib = size / 2**20
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def share(part: float, whole: float) -> float:
    """Return the share ``part / whole``, at most ``MOST_SHARE``.

    The share is 0 if ``part`` or ``whole`` is 0 or less.
    """
    if whole <= 0 or part <= 0:
        return 0.0
    try:
        return min(part / whole, MOST_SHARE)
    except OverflowError:
        return MOST_SHARE if part > whole else 0.0


def percent(part: float, whole: float) -> str:
    """Return the share ``part / whole`` as text: ``82 %``, or ``over 100,000 %``."""
    fraction = share(part, whole)
    return (
        f"over {100 * MOST_SHARE:,.0f} %" if fraction >= MOST_SHARE else f"{100 * fraction:.0f} %"
    )


def progress_of(progress: object) -> str:
    """Return a run's reported progress as text: ``3 of 5``.

    The text is '' if ``done`` or ``total`` is no number, or ``total`` is 0.
    """
    if not isinstance(progress, dict):
        return ""
    done, total = progress.get("done"), progress.get("total")
    if not isinstance(done, int | float) or not isinstance(total, int | float) or not total:
        return ""
    return f"{figure(done)} of {figure(total)}"


def plain(text: str, limit: int | None = None) -> str:
    """Return ``text`` on one line, with "�" for each control character.

    So a goal cannot move the terminal's cursor, for example.

    Args:
        limit: The maximum length. A longer text is cut, and ends with "…". None: no limit.
    """
    flat = " ".join(text.split())
    if not flat.isprintable():
        flat = "".join(letter if letter.isprintable() else "�" for letter in flat)
    return flat if limit is None or len(flat) <= limit else flat[: max(1, limit - 1)] + "…"


def shortened(text: str, limit: int) -> str:
    """Return ``text`` with at most ``limit`` characters.

    A longer text keeps its beginning and its end, with "…" in the middle: an error often names its
    cause at the end.

    Args:
        limit: The maximum length, 3 or more.
    """
    if len(text) <= limit:
        return text
    end = limit // 2
    return f"{text[: limit - end - 1]}…{text[-end:]}"


def lines(text: str) -> str:
    """Return ``text`` with "�" for control characters. Line breaks remain."""
    return "\n".join(
        "".join(letter if letter.isprintable() else "�" for letter in line.expandtabs())
        for line in text.splitlines()
    )


def value_text(value: Any) -> str:
    """Return a JSON value, such as a run's answer, as text for people.

    A string is shown as it is, and so is the string ``text`` of an object that has one. Any other
    value is shown as JSON. Control characters are replaced.
    """
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]
    return lines(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def since(moment: datetime | str, now: datetime | None = None) -> float:
    """Return the seconds from a moment to now, never below 0.

    Args:
        moment: A datetime with a time zone, or its ISO 8601 text.
        now: The present time. None means that of this machine's clock.
    """
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return max(0.0, ((now or datetime.now(UTC)) - moment).total_seconds())


def clock(moment: datetime) -> str:
    """Return a moment as local time of day: ``12:03:59``."""
    return moment.astimezone().strftime("%H:%M:%S")


def waits_for_provider(since: float | None, until: float | None) -> str:
    """Return a text for a run that waits for its model provider.

    For example ``waits for the provider since 12:03, next try 12:09``, in local time.

    Args:
        since: The beginning of the wait in ms since 1970. None leaves it out.
        until: The time of the next attempt in ms since 1970. None leaves it out.
    """
    return _waits_for("the provider", since, until)


def waits_for_code(since: float | None, until: float | None) -> str:
    """Return a text for a run that waits for a worker whose code fits.

    The arguments are those of ``waits_for_provider``.
    """
    return _waits_for("a worker whose code fits", since, until)


def _waits_for(what: str, since: float | None, until: float | None) -> str:
    began, again = (
        None
        if at is None
        else datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime("%H:%M")
        for at in (since, until)
    )
    return (
        f"waits for {what}"
        + (f" since {began}" if began else "")
        + (f", next try {again}" if again else "")
    )


def parked_text(details: Mapping[str, Any]) -> str:
    """Return the reason for a parked run's wait as text.

    It names signals, child runs or a time. For two signals and a time it is ``for paid or withdrawn
    until 2026-11-24 12:00:00+01:00``. ``details`` is ``Run.details``, or the result of
    ``waited_for``.
    """
    signals, until = details.get("signals"), details.get("wait_until")
    parts = [
        "for its child runs" if details.get("waits_for_children") else "",
        f"for {' or '.join(signals)}" if signals else "",
        f"until {moment(until)}" if until else "",
    ]
    return " ".join(filter(None, parts))


def moment(at: datetime | str) -> str:
    """Return a moment as text: local date and time, with the offset from UTC.

    ``at`` is a datetime, or its ISO 8601 text.
    """
    return (
        (datetime.fromisoformat(at) if isinstance(at, str) else at)
        .astimezone()
        .isoformat(sep=" ", timespec="seconds")
    )


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 round``, ``2 rounds``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


#: Characters that count as printable and show nothing: the ones that Unicode lets programs ignore
#: (Default_Ignorable_Code_Point), and blanks that are no spaces to Unicode. Bytes can hide in them.
HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U00013441\U00013442"
    "\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def exact(value: Any) -> str:
    """Return a value as JSON on one line. Invisible characters are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable() and HIDDEN.search(text) is None:
        return text
    return "".join(
        letter
        if letter.isprintable() and HIDDEN.match(letter) is None
        else json.dumps(letter)[1:-1]
        for letter in text
    )
