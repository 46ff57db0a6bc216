"""Texts about the questions of runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perdure.worker.presentation.text import duration, exact, moment, plain
from perdure.worker.presentation.usage import budget

if TYPE_CHECKING:
    from perdure.worker.domain.interrupt import PendingInterrupt

KINDS = {
    "approval": "approval",
    "in_doubt": "in doubt",
    "budget": "budget",
    "question": "question",
    "pause": "pause",
}


def what(waiting: PendingInterrupt) -> str:
    """Return an interrupted run's question as text.

    For a command, that is exactly the command with all its arguments, uncut.
    """
    if waiting.command is not None:
        return f"{plain(waiting.command)} {exact(dict(waiting.args))}"
    data = waiting.data or {}
    if waiting.kind == "budget":
        whose = f"the budget of run {plain(str(data['of']))}" if "of" in data else "its budget"
        return f"{whose} is spent: {budget(str(data['budget']), data['limit'], data['spent'])}"
    return f"{plain(waiting.question)} {beside(waiting)}".rstrip()


def question_lines(waiting: PendingInterrupt) -> list[str]:
    """Return the question as it was asked, and a second line with what it is about, if known."""
    about = what(waiting)
    if waiting.command is None:
        about = about.removeprefix(plain(waiting.question)).strip()
    return [waiting.question, about] if about else [waiting.question]


def of_tree(waiting: PendingInterrupt) -> str:
    """Return as text for whom a child run asks: the run at the top of its tree, with its flow.

    The text is '' for a run without parent.
    """
    if waiting.root is None:
        return ""
    return f"run {waiting.root}" + (f" ({plain(waiting.root_flow)})" if waiting.root_flow else "")


def beside(waiting: PendingInterrupt) -> str:
    """Return the data that belongs to a question as JSON. The text is '' if there is none."""
    if waiting.kind != "question" or waiting.shown_data in (None, {}):
        return ""
    return plain(json.dumps(waiting.shown_data, ensure_ascii=False))


def attempt(waiting: PendingInterrupt) -> list[tuple[str, str]]:
    """Return facts about a command in doubt, as pairs of name and value.

    They help a person to find out whether it has happened: the idempotency key, and when and where
    the command began. Unknown facts are left out.
    """
    by = f" by {plain(waiting.worker)}" if waiting.worker else ""
    began = (
        [("began", f"{moment(waiting.began)}{by}")]
        if waiting.began
        else [("worker", plain(waiting.worker))]
        if waiting.worker
        else []
    )
    return [*([("key", plain(waiting.key))] if waiting.key else []), *began]


def or_else(waiting: PendingInterrupt, now: datetime | None = None) -> str:
    """Return the default answer at an interrupt's deadline, and when: ``true in 5.0 s``.

    The text is '' if the interrupt has no deadline.
    """
    if waiting.deadline is None:
        return ""
    left = (waiting.deadline - (now or datetime.now(UTC))).total_seconds()
    return f"{exact(waiting.default)} {f'in {duration(left)}' if left > 0 else 'at the next sweep'}"
