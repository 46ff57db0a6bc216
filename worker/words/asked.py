"""What a run asks a person, in words."""

from __future__ import annotations

from datetime import UTC, datetime

from worker.waiting import Waiting
from worker.words.costs import budget
from worker.words.texts import duration, exact, moment, plain

KINDS = {"approval": "approval", "in_doubt": "in doubt", "budget": "budget", "question": "question", "pause": "pause"}


def what(waiting: Waiting) -> str:
    """What is asked; of a command exactly that command with its arguments, and nothing of them cut off."""
    if waiting.command is not None:
        return f"{plain(waiting.command)} {exact(dict(waiting.args))}"
    data = waiting.data or {}
    if waiting.kind == "budget":
        return f"its budget is spent: {budget(str(data['budget']), data['limit'], data['spent'])}"
    return plain(waiting.question)


def attempt(waiting: Waiting) -> list[tuple[str, str]]:
    """Of a command in doubt, what helps to find out whether it has happened: names and values."""
    by = f" by {plain(waiting.worker)}" if waiting.worker else ""
    began = [("began", f"{moment(waiting.began)}{by}")] if waiting.began else [("worker", plain(waiting.worker))] if waiting.worker else []
    return [*([("key", plain(waiting.key))] if waiting.key else []), *began]


def or_else(waiting: Waiting, now: datetime | None = None) -> str:
    """What happens at the deadline, and when; '' where there is none."""
    if waiting.deadline is None:
        return ""
    left = (waiting.deadline - (now or datetime.now(UTC))).total_seconds()
    return f"{exact(waiting.default)} {f'in {duration(left)}' if left > 0 else 'at the next sweep'}"
