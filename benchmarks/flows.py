"""Flows for the benchmarks."""

from __future__ import annotations

from typing import Any

from benchmarks.tally import stamp
from benchmarks.work import state_after
from flows import CircularFlow, Node, RoundContext, register


@register("empty")
class Empty(CircularFlow):
    """As many rounds as the inputs say, with nothing in them but a new state of so many bytes; both roles in turns."""

    topology = (Node("Controller", "nothing", role="controller"), Node("Executor", "nothing"))

    def nothing(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        stamp()
        done = context.step + 1
        return {self.early_exit_key: done >= context.inputs["rounds"], "state": state_after(done, context.inputs.get("bytes", 500))}


@register("sleeper")
class Sleeper(CircularFlow):
    """One round that sleeps until nobody wants it any more."""

    topology = (Node("Executor", "sleep"),)

    def sleep(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        context.cancelled.wait(context.inputs.get("seconds", 60))
        return {self.early_exit_key: True}
