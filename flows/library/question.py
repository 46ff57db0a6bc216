"""question: asks a person the goal, and ends with what they answered; to try interrupts and resume on."""

from __future__ import annotations

from flows.commands import command
from flows.context import RoundContext
from flows.controller_executor import ControllerExecutorFlow
from flows.outcomes import Command, Finish, Interrupt
from flows.registry import register


@register("question")
class Question(ControllerExecutorFlow):
    """Puts the goal to a person as a question; the answer that resume gives is the run's."""

    description = "Asks a person the goal, and ends with the answer; to try interrupts and resume on."

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish(context.observation) if len(context.history) else Command("ask", {"question": context.goal})

    @command(idempotent=True)
    def ask(self, context: RoundContext, question: str) -> object:
        """Ask a person."""
        return context.answer if context.answered else Interrupt(question)
