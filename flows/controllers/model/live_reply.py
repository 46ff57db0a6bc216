"""A model's reply while it arrives: live text, and the round's progress."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from perdure.flows.controllers.model.chat import Piece
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.facts import PROGRESS_LENGTH

#: Minimum seconds between two progress reports of an incoming reply. Reports travel with heartbeats
#: in any case.
TOLD_EVERY = 0.2


def shower_of(context: RoundContext) -> Callable[[Piece], None]:
    """Return a function that shows a model's reply piece by piece while it arrives.

    It writes live text, and reports the end of the text as the round's progress. Progress is
    reported at most once in ``TOLD_EVERY`` seconds. Arguments of tool calls are only written as
    live text.
    """
    last_report, tail = 0.0, ""

    def show(piece: Piece) -> None:
        """Show a piece of the reply. Report progress if no report is recent."""
        nonlocal last_report, tail
        context.stream(piece.text, piece.kind, piece.tool)
        if piece.kind == "arguments":
            return
        tail = (tail + piece.text)[-PROGRESS_LENGTH - 1 :]
        now = monotonic()
        if now - last_report >= TOLD_EVERY:
            last_report = now
            context.progress(
                0, None, tail if len(tail) <= PROGRESS_LENGTH else f"…{tail[1 - PROGRESS_LENGTH :]}"
            )

    return show
