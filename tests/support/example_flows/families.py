"""Flows whose nodes start child runs and wait for them."""

from __future__ import annotations

from typing import Any

from perdure import Child, CircularFlow, FatalError, Interrupt, Node, RoundContext, register


@register("chore")
class Chore(CircularFlow):
    """A child: answers with what it was asked for in ``rounds`` rounds, fails, asks a person, or waits for ``go``."""

    topology = (Node("Work", "work"),)
    max_rounds = 20

    def work(self, state: dict[str, Any], context: RoundContext) -> Any:
        inputs = context.inputs
        done = state.get("done", 0) + 1
        if inputs.get("fail"):
            raise FatalError("it cannot be done")
        if inputs.get("ask") and not context.answered:
            return Interrupt("go on?")
        if inputs.get("wait"):
            context.wait_for("go")
        if done < inputs.get("rounds", 1):
            return {"done": done}
        answer = inputs.get("answer", context.goal)
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}


@register("errand")
class Errand(CircularFlow):
    """A parent of one child; ``child`` has what the child gets."""

    topology = (Node("Send", "send"),)

    def send(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        began = context.once("began", lambda: context.attempt)
        answer = context.child(
            "chore",
            context.goal,
            context.inputs.get("child", {}),
            **context.inputs.get("options", {}),
        )
        return {self.early_exit_key: True, "answer": [began, answer], "status": "finished"}


@register("fan")
class Fan(CircularFlow):
    """A parent of a group: ``children`` has the inputs of each, ``options`` those of ``gather``."""

    topology = (Node("Spread", "spread"), Node("Close", "close"))

    def spread(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        children = [
            Child("chore", f"item {place}", inputs)
            for place, inputs in enumerate(context.inputs["children"])
        ]
        group = context.gather(children, **context.inputs.get("options", {}))
        told = [[each.place, each.status, each.answer] for each in group]
        return {"told": told, "missing": group.missing}

    def close(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        answer = [state["told"], state["missing"]]
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}


@register("nest")
class Nest(CircularFlow):
    """A parent of parents: two children each, ``depth`` generations deep. Answers with how many it is together."""

    topology = (Node("Grow", "grow"),)

    def grow(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        depth = context.inputs["depth"]
        answers = [0]
        if depth:
            children = [Child("nest", "grow", {"depth": depth - 1}) for _ in range(2)]
            answers = context.gather(children).answers
        return {self.early_exit_key: True, "answer": 1 + sum(answers), "status": "finished"}
