"""What a run asks a person, in words."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from worker.cli.costs import budget
from worker.cli.on_app import program
from worker.cli.texts import duration, exact, plain
from worker.waiting import Waiting


def what(waiting: Waiting) -> str:
    """What is asked; of a command exactly that command with its arguments, and nothing of them cut off."""
    if waiting.command is not None:
        return f"{plain(waiting.command)} {exact(dict(waiting.args))}"
    data = waiting.data or {}
    if waiting.kind == "budget":
        return f"its budget is spent: {budget(str(data['budget']), data['limit'], data['spent'])}"
    return plain(waiting.question)


def or_else(waiting: Waiting, now: datetime | None = None) -> str:
    """What happens at the deadline, and when; '' where there is none."""
    if waiting.deadline is None:
        return ""
    left = (waiting.deadline - (now or datetime.now(UTC))).total_seconds()
    return f"{exact(waiting.default)} {f'in {duration(left)}' if left > 0 else 'at the next sweep'}"


def pairs(waiting: Waiting) -> list[tuple[str, str]]:
    """All of it, as names and values; ``command`` must not be cut."""
    found = [("asks", plain(waiting.question))]
    if waiting.command is not None:
        found.append(("command", what(waiting)))
    elif waiting.kind == "budget":
        found.append(("because", what(waiting)))
    elif waiting.data is not None:
        found.append(("with", plain(json.dumps(waiting.data, ensure_ascii=False))))
    if waiting.deadline is not None:
        found.append(("or else", or_else(waiting)))
    return [*found, *(("go on", each) for each in waiting.how(program()))]
