"""The soak's flow: each round writes down that it was tried, takes its time, and sends one effect under its idempotency key."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from perdure import CircularFlow, Node, RoundContext, register
from tests.soak.ledger import Ledger

#: In the environment of workers: the ledger's directory.
LEDGER = "SOAK_LEDGER"


@cache
def ledger() -> Ledger:
    """The ledger of this process."""
    return Ledger(Path(os.environ[LEDGER]))


@register("soak")
class Soak(CircularFlow):
    """Two nodes in turn; the answer is the steps that were committed, so that a step lost or doubled shows.

    Inputs: ``rounds``, and ``seconds`` that each round takes.
    """

    topology = (Node("Controller", "write", role="controller"), Node("Executor", "write"))
    max_rounds = None

    def write(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        what = context.run_id, context.step, context.attempt, context.idempotency_key
        ledger().tried(*what)
        if context.cancelled.wait(context.inputs["seconds"]):
            context.raise_if_stopped()
        ledger().apply(*what)
        seen = [*state.get("seen", []), context.step]
        if len(seen) >= context.inputs["rounds"]:
            return {"seen": seen, self.early_exit_key: True, "answer": seen, "status": "finished"}
        return {"seen": seen}
