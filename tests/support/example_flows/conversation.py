"""A flow that answers with its knowledge of the conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure import (
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    FatalError,
    Finish,
    Node,
    RoundContext,
    command,
    register,
)

#: Called inside a decision: a test's own, which may send something meanwhile.
MEANWHILE: list[Callable[[RoundContext], None]] = []


@register("talking")
class Talking(ControllerExecutorFlow):
    """Answers with the goal, the messages that it has read, and how many messages came before.

    A goal that begins with "fail" ends it with an error.
    """

    max_rounds = None

    def decide(self, context: RoundContext) -> Command | Finish:
        for each in MEANWHILE:
            each(context)
        if len(context.history) < context.inputs.get("rounds", 0):
            return Command("note")
        if context.goal.startswith("fail"):
            raise FatalError("no words")
        heard = [context.goal, *map(str, context.said)]
        return Finish(f"{len(context.conversation)} before; {' + '.join(heard)}")

    @command(idempotent=True)
    def note(self, context: RoundContext) -> int:
        """Note the step."""
        return context.step


@register("hearing")
class Hearing(CircularFlow):
    """Waits for a message, and answers with it."""

    topology = (Node("Hear", "hear"),)

    def hear(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        signal = context.wait_for("say")
        answer = None if signal is None else signal.payload
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}
