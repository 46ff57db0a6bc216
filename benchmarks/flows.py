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


@register("waiter")
class Waiter(CircularFlow):
    """Waits for as many signals as the inputs say, and answers with their payloads."""

    topology = (Node("Controller", "wait", role="controller"),)
    max_rounds = None

    def wait(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        """Wait for one signal, and keep its payload."""
        if context.inputs.get("seconds"):
            context.sleep(context.inputs["seconds"])
            stamp()
            return {self.early_exit_key: True}
        signal = context.wait_for("paid")
        stamp()
        assert signal is not None
        taken = [*state.get("taken", []), signal.payload]
        while context.inputs.get("batch") and (more := context.take("paid")) is not None:
            taken.append(more.payload)
        done = len(taken) >= context.inputs.get("signals", 1)
        return {self.early_exit_key: done, "taken": taken, "answer": taken}


@register("sleeper")
class Sleeper(CircularFlow):
    """One round that sleeps until it is cancelled."""

    topology = (Node("Executor", "sleep"),)

    def sleep(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        context.cancelled.wait(context.inputs.get("seconds", 60))
        return {self.early_exit_key: True}


@register("one-child")
class OneChild(CircularFlow):
    """Starts a child of one empty round in each of its rounds, one after the other."""

    topology = (Node("Controller", "start", role="controller"),)
    max_rounds = None

    def start(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        context.child("empty", "go", {"rounds": 1})
        stamp()
        done = context.step + 1
        return {self.early_exit_key: done >= context.inputs["rounds"], "state": done}


@register("wide")
class Wide(CircularFlow):
    """Starts a child of one round for each item, as many at a time as the inputs say.

    The rounds are empty, or sleep for ``seconds``.
    """

    topology = (Node("Controller", "start", role="controller"),)

    def start(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        inputs = context.inputs
        seconds = inputs.get("seconds")
        group = context.map(
            "sleeper" if seconds else "empty",
            range(inputs["items"]),
            inputs=lambda item: {"seconds": seconds} if seconds else {"rounds": 1, "bytes": 0},
            max_concurrency=inputs["at_once"],
        )
        return {self.early_exit_key: True, "answer": len(group.answers)}


@register("tree")
class Tree(CircularFlow):
    """Starts as many children as the first of ``widths`` says, which do the same with the rest.

    The last ones wait for a signal that never comes.
    """

    topology = (Node("Controller", "start", role="controller"),)

    def start(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        widths = context.inputs["widths"]
        if not widths:
            context.wait_for("nothing")
        else:
            context.map("tree", range(widths[0]), inputs=lambda item: {"widths": widths[1:]})
        return {self.early_exit_key: True}
