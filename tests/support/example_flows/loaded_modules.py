"""A flow that says which modules of the fast path its worker has imported."""

from __future__ import annotations

import sys
from typing import Any

from perdure import CircularFlow, Node, RoundContext, register


@register("loaded_modules")
class LoadedModules(CircularFlow):
    """Two rounds, so that the first one's commit could prefetch; the answer is the list of modules."""

    topology = (Node("Controller", "look", role="controller"), Node("Executor", "look"))

    def look(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        if context.step == 0:
            return {}
        fast = sorted(
            name
            for name in list(sys.modules)
            if name.startswith("perdure.") and "fast" in name.split(".")
        )
        return {self.early_exit_key: True, "answer": fast, "status": "finished"}
