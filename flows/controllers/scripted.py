"""A controller that follows a script: for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.context import RoundContext
from flows.controllers import Controller, controller
from flows.errors import FatalError, InvalidFlow
from flows.outcomes import Interrupt


@controller("scripted")
class ScriptedController(Controller):
    """Gives its replies one after the other, the same on every worker and every attempt.

    Which one comes next follows from the length of the history, since each reply that does not end the run adds
    one turn. An ``Interrupt`` in the script asks before the reply that follows it.

    Args:
        replies: whatever ``Controller.decide`` may return.
        reads_errors: True where it stands for a model: errors are observations then. A script itself is code.
    """

    def __init__(self, replies: Sequence[Any], reads_errors: bool = False) -> None:
        self.reads_errors = reads_errors
        self.replies: list[Any] = []
        self.questions: dict[int, Interrupt] = {}
        for reply in replies:
            if not isinstance(reply, Interrupt):
                self.replies.append(reply)
            elif self.questions.setdefault(len(self.replies), reply) is not reply:
                raise InvalidFlow("a script cannot ask twice in a row: nothing would tell the two answers apart")

    def decide(self, context: RoundContext) -> Any:
        """The reply whose turn it is; raises FatalError beyond the end of the script."""
        turn = len(context.history)
        if turn in self.questions and not context.answered:
            return self.questions[turn]
        if turn >= len(self.replies):
            raise FatalError(
                f"run {context.run_id}, step {context.step}: the script has {len(self.replies)} replies, "
                f"and reply {turn + 1} was asked for; let it end with Finish"
            )
        return self.replies[turn]
