"""A flow with a coroutine as its node, which does not look for a stop."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure import CircularFlow, Node, RoundContext, register


@register("coroutine")
class Coroutine(CircularFlow):
    """One ``async def`` node that awaits ``seconds`` and looks at nothing."""

    topology = (Node("Executor", "sleep"),)

    async def sleep(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        await asyncio.sleep(context.inputs["seconds"])
        return {self.early_exit_key: True, "answer": "slept", "status": "finished"}
