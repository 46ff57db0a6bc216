"""The flow ``countdown``: counts down, and sleeps at each number.

It is for trying out stop, interrupts and killed workers.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from perdure.flows.commands.command import command
from perdure.flows.core.errors import RoundStopped
from perdure.flows.core.outcomes import Command, Finish
from perdure.flows.rings.controller_executor import ControllerExecutorFlow
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.registry import register


@register("countdown")
class Countdown(ControllerExecutorFlow):
    """Count ``rounds`` down to 0, and sleep for ``seconds`` at each number."""

    description = (
        "Counts down with a pause at each number; for trying out stop, interrupts and lost workers."
    )
    max_rounds = None

    class Inputs(BaseModel):
        rounds: int = Field(
            default=3, ge=0, le=1_000_000, description="The number to count down from."
        )
        seconds: float = Field(
            default=0.0, ge=0.0, le=86_400.0, description="How long to pause at each."
        )

    def decide(self, context: RoundContext) -> Command | Finish:
        """Return the next number's command, or finish at 0."""
        left = context.inputs["rounds"] - len(context.history)
        return (
            Command("tick", {"left": left})
            if left > 0
            else Finish(f"counted down from {context.inputs['rounds']}")
        )

    @command(idempotent=True)
    def tick(self, context: RoundContext, left: int) -> int:
        """Pause, and return how many numbers are left."""
        context.progress(context.inputs["rounds"] - left, context.inputs["rounds"], f"{left} left")
        if context.cancelled.wait(context.inputs["seconds"]):
            raise RoundStopped(
                f"run {context.run_id}, step {context.step}: cancelled with {left} numbers left"
            )
        return left - 1
