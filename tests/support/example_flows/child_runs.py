"""Flows whose nodes start child runs and wait for them."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel, ConfigDict

from perdure import Child, CircularFlow, FatalError, Interrupt, Node, RoundContext, register

#: With an entry here, no child fails any more.
MENDED: list[str] = []


@register("chore")
class Chore(CircularFlow):
    """A child: answers its goal in ``rounds`` rounds, fails, asks a person, or waits for ``go``."""

    topology = (Node("Work", "work"),)
    max_rounds = 20

    def work(self, state: dict[str, Any], context: RoundContext) -> Any:
        inputs = context.inputs
        done = state.get("done", 0) + 1
        if inputs.get("fail") and not MENDED:
            raise FatalError("it cannot be done")
        if inputs.get("ask") and not context.answered:
            return Interrupt("go on?")
        time.sleep(inputs.get("seconds", 0))
        if inputs.get("wait"):
            context.wait_for("go")
        if done < inputs.get("rounds", 1):
            return {"done": done}
        answer = inputs.get("answer", context.goal)
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}


@register("errand")
class Errand(CircularFlow):
    """A parent of one child; ``child`` has the child's inputs."""

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


@register("scouts")
class Scouts(CircularFlow):
    """A parent that starts its children in one step, works on, and joins them in another; ``join`` has its options."""

    topology = (Node("Send", "send"), Node("Work", "work"), Node("Join", "join"))

    def send(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        children = [
            Child("chore" if place else "errand", f"item {place}", inputs)
            for place, inputs in enumerate(context.inputs["children"])
        ]
        return {"group": context.start(children, **context.inputs.get("options", {}))}

    def work(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        early = context.inputs.get("early")
        done = {self.early_exit_key: True, "answer": "early", "status": "finished"}
        return done if early else {"worked": True}

    def join(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        group = context.join(state["group"], **context.inputs.get("join", {}))
        if context.inputs.get("again") and group.missing:
            group = context.join(state["group"], wait="settled")
        told = [[each.place, each.flow, each.status] for each in group]
        return {self.early_exit_key: True, "answer": told, "status": "finished"}


@register("atlas")
class Atlas(CircularFlow):
    """A parent of a child for each item."""

    topology = (Node("Spread", "spread"),)

    def spread(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        pages = context.map(
            "chore",
            context.inputs["items"],
            goal="Read {item}",
            inputs=lambda item: {"rounds": 1},
            labels={"of": "map"},
        )
        return {self.early_exit_key: True, "answer": pages.answers, "status": "finished"}


@register("strict")
class Strict(Chore):
    """A child that expects one input."""

    class Inputs(BaseModel):
        """Its inputs."""

        model_config = ConfigDict(extra="forbid")

        a: int


#: The children that ``careless`` wants to start.
WANTED: dict[str, Any] = {}


@register("careless")
class Careless(CircularFlow):
    """A parent that asks for children that cannot be."""

    topology = (Node("Send", "send"),)

    def send(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        wanted = dict(WANTED)
        count, distinct = wanted.pop("count", 1), wanted.pop("distinct", False)
        child = {"flow": "chore", "inputs": wanted.pop("given", {}), **wanted}
        children = [
            Child(
                **{
                    **child,
                    "inputs": {
                        **child["inputs"],
                        **({str(place): "x" * 200_000} if distinct else {}),
                    },
                }
            )
            for place in range(count)
        ]
        context.gather(children)
        return {}


@register("nest")
class Nest(CircularFlow):
    """A parent of parents: two children each, ``depth`` generations deep. Answers with how many it is together."""

    topology = (Node("Grow", "grow"),)

    def grow(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        depth = context.inputs["depth"]
        answers = [0]
        if depth:
            inputs = {**context.inputs, "depth": depth - 1}
            children = [Child("nest", "grow", inputs)] * context.inputs.get("width", 2)
            answers = context.gather(children).answers
        return {self.early_exit_key: True, "answer": 1 + sum(answers), "status": "finished"}
