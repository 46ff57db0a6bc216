"""A flow that redacts the observation of its command."""

from __future__ import annotations

import os
import signal
from typing import Any

from perdure import Command, ControllerExecutorFlow, Finish, Node, RoundContext, command, register

SECRET = "secret-that-is-redacted-0123456789"


@register("redacting")
class Redacting(ControllerExecutorFlow):
    """Looks twice, and ends with its observations; the worker that redacts first is killed there,
    if the inputs say so.
    """

    topology = (*ControllerExecutorFlow.topology, Node("Redact", "redact"))
    max_result = 30

    def decide(self, context: RoundContext) -> Any:
        """Look twice, then end."""
        return (
            Command("look")
            if len(context.history) < 2
            else Finish([turn.observation for turn in context.history])
        )

    @command(idempotent=True)
    def look(self) -> str:
        """Longer than what goes into the history."""
        return SECRET * 3

    def redact(self, given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        """Replace all."""
        if context.inputs.get("dies") and context.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"observation": f"redacted in step {context.step}"}
