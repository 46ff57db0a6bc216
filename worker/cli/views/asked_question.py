"""The question of an interrupted run in the output of ``perdure show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.worker.cli.celery_command import program
from perdure.worker.presentation.questions import attempt, beside, or_else, what
from perdure.worker.presentation.text import plain

if TYPE_CHECKING:
    from perdure.worker.domain.interrupt import PendingInterrupt


def asked(waiting: PendingInterrupt) -> list[tuple[str, str]]:
    """Return an interrupted run's question as pairs of name and value.

    The last pairs are the commands that answer the question. The caller must print the value of
    ``command`` uncut, because a person approves exactly this command.
    """
    asks = "for more budget" if waiting.kind == "budget" else plain(waiting.question)
    fields = [("asks", asks)]
    if waiting.command is not None:
        fields.append(("command", what(waiting)))
        fields += attempt(waiting)
    elif waiting.kind == "budget":
        fields.append(("because", what(waiting)))
    elif text := beside(waiting):
        fields.append(("with", text))
    if waiting.deadline is not None:
        fields.append(("or else", or_else(waiting)))
    return [*fields, *(("go on", each) for each in waiting.how(program()))]
