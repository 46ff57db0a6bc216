"""The flow ``question``: asks a person the goal, and ends with the person's answer.

It is for trying out interrupts and resume.
"""

from __future__ import annotations

from perdure.flows.commands.command import command
from perdure.flows.core.outcomes import Command, Finish, Interrupt
from perdure.flows.rings.controller_executor import ControllerExecutorFlow
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.registry import register


@register("question")
class QuestionFlow(ControllerExecutorFlow):
    """Ask a person the goal. The answer given to resume is the run's result."""

    description = (
        "Asks a person the goal, and ends with the answer; for trying out interrupts and resume."
    )

    def decide(self, context: RoundContext) -> Command | Finish:
        """Return the command that asks the goal, or finish with a person's answer."""
        return (
            Finish(context.observation)
            if len(context.history)
            else Command("ask", {"question": context.goal})
        )

    @command(idempotent=True)
    def ask(self, context: RoundContext, question: str) -> object:
        """Ask a person."""
        return context.answer if context.answered else Interrupt(question)
