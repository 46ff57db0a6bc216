"""A flow that only workers know: no test imports this module."""

from __future__ import annotations

from pydantic import BaseModel

from perdure import ControllerExecutorFlow, Finish, RoundContext, register


@register("unseen")
class Unseen(ControllerExecutorFlow):
    """Finishes with its inputs."""

    class Inputs(BaseModel):
        count: int
        unit: str = "pieces"

    def decide(self, context: RoundContext) -> Finish:
        return Finish(f"{context.inputs['count']} {context.inputs['unit']}")
