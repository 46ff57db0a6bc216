"""A controller that follows a script, for tests and demos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.flows.commands.controller import Controller, controller
from perdure.flows.core.errors import FatalError, InvalidFlow
from perdure.flows.core.names import REMARKS
from perdure.flows.core.outcomes import Interrupt
from perdure.flows.rounds.context import RoundContext


@controller("scripted")
class ScriptedController(Controller):
    """A controller that returns scripted replies in order.

    Every worker and attempt gets the same reply. The length of the history determines the next
    reply, because each reply that does not end the run adds one turn. An ``Interrupt`` in the
    script is returned before the reply that follows it.

    Args:
        replies: Values that ``Controller.decide`` may return.
        reads_errors: True if the script stands for a model, so that errors are observations. A
            script by itself is code.
    """

    def __init__(self, replies: Sequence[Any], reads_errors: bool = False) -> None:
        self.reads_errors = reads_errors
        self.replies: list[Any] = []
        self.questions: dict[int, Interrupt] = {}
        for reply in replies:
            if not isinstance(reply, Interrupt):
                self.replies.append(reply)
            elif self.questions.setdefault(len(self.replies), reply) is not reply:
                raise InvalidFlow(
                    "a script cannot contain two interrupts in a row: "
                    "their answers could not be distinguished"
                )

    def decide(self, context: RoundContext) -> Any:
        """Return the script's next reply, in place of a model.

        Raises:
            FatalError: The script has no more replies.
        """
        remarks = () if context.whole is not None else context.committed.get(REMARKS, ())
        turn = len(context.history) - len(remarks)
        if turn in self.questions and not context.answered:
            return self.questions[turn]
        if turn >= len(self.replies):
            raise FatalError(
                f"run {context.run_id}, step {context.step}: the script has {len(self.replies)} "
                f"replies, but reply {turn + 1} is needed; end the script with Finish"
            )
        return self.replies[turn]
