"""A flow that fails in its own file, like a user's flow."""

from __future__ import annotations

import json
import os

from perdure import Command, ControllerExecutorFlow, Finish, RoundContext, register


@register("divides")
class Divides(ControllerExecutorFlow):
    """Fails in its own code as long as the goal says so."""

    def decide(self, context: RoundContext) -> Command | Finish:
        if context.goal == "library":
            json.loads("{")
        if context.goal == "secret":
            raise ValueError(
                f"the key {os.environ['TEST_API_KEY']} of redis://ann:hunter22@host is refused"
            )
        if context.goal == "once" and context.attempt > 1:
            return Finish("done")
        return Finish(str(divided(1, 0)))


def divided(left: int, right: int) -> float:
    return left / right
