"""Flows whose runs a person steers while they work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure import (
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    Finish,
    Node,
    RoundContext,
    Steps,
    command,
    register,
    workflow,
)

#: Called inside a decision, by the run's id: a test's own, which may say something to the run.
MEANWHILE: dict[str, Callable[[RoundContext], None]] = {}


@register("steered")
class Steered(ControllerExecutorFlow):
    """Notes ``rounds`` times, then finishes with the messages that it read.

    Answers a question at once.
    """

    max_rounds = None

    def decide(self, context: RoundContext) -> Command | Finish:
        MEANWHILE.get(context.run_id, lambda context: None)(context)
        asks = context.committed.get("_open_asks")
        if asks:
            return Command("reply", {"answer": f"at {len(context.history)}"})
        if len(context.history) < context.inputs.get("rounds", 0):
            return Command("note")
        return Finish([context.observation, context.said])

    @command(idempotent=True)
    def note(self, context: RoundContext) -> int:
        """Note the step."""
        context.remember("plan", context.step)
        return context.step


@workflow("plain_workflow")
def plain_workflow(steps: Steps) -> str:
    """A function that reads no messages."""
    return str(steps.wait_for("price"))


@register("asked_ring")
class AskedRing(CircularFlow):
    """A node of its own takes a question and replies to it."""

    topology = (Node("Serve", "serve"),)

    def serve(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        price = context.wait_for("price")
        assert price is not None
        context.reply(price, {"of": price.payload, "attempt": context.attempt})
        return {self.early_exit_key: True, "answer": "served", "status": "finished"}
