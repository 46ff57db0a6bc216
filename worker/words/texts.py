"""Words for people: durations, ages, and texts of strangers made harmless and short."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from worker.durations import duration as duration  # noqa: PLC0414  words for people are found here


def plain(text: str, limit: int | None = None) -> str:
    """``text`` on one line, without control characters (a goal must not move the cursor), cut to ``limit``."""
    flat = " ".join(text.split())
    if not flat.isprintable():
        flat = "".join(letter if letter.isprintable() else "�" for letter in flat)
    return flat if limit is None or len(flat) <= limit else flat[: max(1, limit - 1)] + "…"


def lines(text: str) -> str:
    """``text`` with its line breaks kept and other control characters made visible."""
    return "\n".join("".join(letter if letter.isprintable() else "�" for letter in line.expandtabs()) for line in text.splitlines())


def value_text(value: Any) -> str:
    """An answer for people: a text as it is, the ``text`` of an object that has one, else JSON."""
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]
    return lines(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def since(moment: datetime | str, now: datetime | None = None) -> float:
    """Seconds since then; never negative."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return max(0.0, ((now or datetime.now(UTC)) - moment).total_seconds())


def clock(moment: datetime) -> str:
    """The time of day here."""
    return moment.astimezone().strftime("%H:%M:%S")


def waits_for_provider(since: float | None, until: float | None) -> str:
    """``waits for the provider since 12:03, next try 12:09``; times in ms, shown as the time of day here."""
    began, again = (None if at is None else datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime("%H:%M") for at in (since, until))
    return "waits for the provider" + (f" since {began}" if began else "") + (f", next try {again}" if again else "")


def moment(at: datetime | str) -> str:
    """The date and time here."""
    return (datetime.fromisoformat(at) if isinstance(at, str) else at).astimezone().isoformat(sep=" ", timespec="seconds")


def count(number: int, noun: str) -> str:
    """``1 round``, ``2 rounds``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def exact(value: Any) -> str:
    """A value as JSON on one line, each character of it visible: what does not print stands there as its escape."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
