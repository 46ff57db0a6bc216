"""Flows for the benchmarks."""

from __future__ import annotations

from typing import Any

from benchmarks.tally import stamp
from benchmarks.work import state_after
from perdure import CircularFlow, Node, RoundContext, register


@register("empty")
class Empty(CircularFlow):
    """Empty rounds, as many as the inputs say; each leaves a new state of ``bytes`` bytes.

    The two roles alternate.
    """

    topology = (Node("Controller", "nothing", role="controller"), Node("Executor", "nothing"))

    def nothing(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        stamp()
        done = context.step + 1
        return {
            self.early_exit_key: done >= context.inputs["rounds"],
            "state": state_after(done, context.inputs.get("bytes", 500)),
        }


@register("sleeper")
class Sleeper(CircularFlow):
    """One round that sleeps until it is cancelled."""

    topology = (Node("Executor", "sleep"),)

    def sleep(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        context.cancelled.wait(context.inputs.get("seconds", 60))
        return {self.early_exit_key: True}
