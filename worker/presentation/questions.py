"""Texts about the questions that interrupted runs ask a person."""

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
    """Return the subject of an interrupted run's question as text.

    For a command, it is the command with all its arguments, uncut. For a used-up budget, it is the
    budget with limit and spending. Otherwise it is the question with its data.
    """
    if waiting.command is not None:
        return f"{plain(waiting.command)} {exact(dict(waiting.args))}"
    data = waiting.data or {}
    if waiting.kind == "budget":
        whose = f"the budget of run {plain(str(data['of']))}" if "of" in data else "its budget"
        return f"{whose} is spent: {budget(str(data['budget']), data['limit'], data['spent'])}"
    return f"{plain(waiting.question)} {beside(waiting)}".rstrip()


def question_lines(waiting: PendingInterrupt) -> list[str]:
    """Return the question and its subject as lines. Without a subject, there is one line."""
    about = what(waiting)
    if waiting.command is None:
        about = about.removeprefix(plain(waiting.question)).strip()
    return [waiting.question, about] if about else [waiting.question]


def of_tree(waiting: PendingInterrupt) -> str:
    """Return a text that names the top run of the tree in which a child run asks.

    The text is ``run ID (FLOW)``, without the flow if the flow is not known. It is '' if the asking
    run has no parent.
    """
    if waiting.root is None:
        return ""
    return f"run {waiting.root}" + (f" ({plain(waiting.root_flow)})" if waiting.root_flow else "")


def beside(waiting: PendingInterrupt) -> str:
    """Return the data beside a node's question as JSON text.

    The text is '' if there is no data, or if the interrupt is not of the kind ``question``.
    """
    if waiting.kind != "question" or waiting.shown_data in (None, {}):
        return ""
    return plain(json.dumps(waiting.shown_data, ensure_ascii=False))


def attempt(waiting: PendingInterrupt) -> list[tuple[str, str]]:
    """Return facts about a command in doubt, as pairs of name and value.

    They help a person to find out whether the command has happened: its idempotency key, the time
    when it began, and the lost worker. Unknown facts are left out.
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
    """Return an interrupt's default answer and its time: ``true in 5.0 s``.

    After the deadline, the text ends with ``at the next sweep``. It is '' if the interrupt has no
    deadline.

    Args:
        now: The present time. None means that of this machine's clock.
    """
    if waiting.deadline is None:
        return ""
    left = (waiting.deadline - (now or datetime.now(UTC))).total_seconds()
    return f"{exact(waiting.default)} {f'in {duration(left)}' if left > 0 else 'at the next sweep'}"
