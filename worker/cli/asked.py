"""What a run asks a person, and the commands that answer it, as names and values."""

from __future__ import annotations

import json

from worker.cli.on_app import program
from worker.waiting import Waiting
from worker.words.asked import attempt, or_else, what
from worker.words.texts import plain


def pairs(waiting: Waiting) -> list[tuple[str, str]]:
    """All of it, as names and values; ``command`` must not be cut."""
    found = [("asks", "for more budget" if waiting.kind == "budget" else plain(waiting.question))]
    if waiting.command is not None:
        found.append(("command", what(waiting)))
        found += attempt(waiting)
    elif waiting.kind == "budget":
        found.append(("because", what(waiting)))
    elif waiting.data is not None:
        found.append(("with", plain(json.dumps(waiting.data, ensure_ascii=False))))
    if waiting.deadline is not None:
        found.append(("or else", or_else(waiting)))
    return [*found, *(("go on", each) for each in waiting.how(program()))]
