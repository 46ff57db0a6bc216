"""countdown: a run that does nothing, as slowly as asked; to try stopping, interrupting and killing workers on."""

from __future__ import annotations

from pydantic import BaseModel, Field

from flows.commands import command
from flows.context import RoundContext
from flows.controller_executor import ControllerExecutorFlow
from flows.errors import RoundStopped
from flows.outcomes import Command, Finish
from flows.registry import register


@register("countdown")
class Countdown(ControllerExecutorFlow):
    """Counts ``rounds`` down to nothing, pausing ``seconds`` at each number."""

    description = "Counts down, pausing at each number; to try stop, interrupts and lost workers on."
    max_rounds = None

    class Inputs(BaseModel):
        rounds: int = Field(default=3, ge=0, le=1_000_000, description="The number to count down from.")
        seconds: float = Field(default=0.0, ge=0.0, le=86_400.0, description="How long to pause at each.")

    def decide(self, context: RoundContext) -> Command | Finish:
        left = context.inputs["rounds"] - len(context.history)
        return Command("tick", {"left": left}) if left > 0 else Finish(f"counted down from {context.inputs['rounds']}")

    @command(idempotent=True)
    def tick(self, context: RoundContext, left: int) -> int:
        """Pause, and say how many numbers are left."""
        context.progress(context.inputs["rounds"] - left, context.inputs["rounds"], f"{left} left")
        if context.cancelled.wait(context.inputs["seconds"]):
            raise RoundStopped(f"run {context.run_id}, step {context.step}: cancelled with {left} numbers left")
        return left - 1
