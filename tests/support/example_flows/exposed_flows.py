"""Flows that clients of MCP and of OpenAI's API may start, and another that they may not."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel

from perdure import (
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    Node,
    RetryableError,
    RoundContext,
    command,
    register,
)


class Target(BaseModel):
    """The target of a removal."""

    path: str


class Tidying(BaseModel):
    """Inputs of ``tidy``: with a definition of its own, so that its schema has references."""

    target: Target
    gate: str = ""


@register("tidy")
class Tidy(ControllerExecutorFlow):
    """Removes a directory, if a person approves it."""

    expose = ("mcp", "openai")
    Inputs = Tidying

    def decide(self, context: RoundContext) -> Command | Finish:
        if context.observation is not None:
            return Finish(context.observation)
        context.spend(tokens=30, input_tokens=20, output_tokens=10)
        return Command("remove", {"path": context.inputs["target"]["path"]})

    @command(approval="always", idempotent=True)
    def remove(self, context: RoundContext, path: str) -> str:
        """Remove a directory."""
        gate = context.inputs.get("gate")
        if gate and os.path.exists(gate):
            context.cancelled.wait(60)
        return f"removed {path}"


@register("guarded")
class Guarded(Tidy):
    """As ``tidy``, and who submits a run cannot approve its command."""

    approvers = "others"


@register("talk")
class Talk(CircularFlow):
    """Says its text word by word. Its first ``fails`` attempts stop half way."""

    expose = ("mcp", "openai")
    topology = (Node("Controller", "say", role="controller"),)

    def say(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        words = f"you said {context.goal}".split()
        context.stream("hm", kind="thinking")
        for number, word in enumerate(words):
            context.stream(word if number == 0 else f" {word}")
            if number == len(words) // 2 and context.attempt <= context.inputs.get("fails", 0):
                raise RetryableError("half of it", retry_after=0)
        return {self.early_exit_key: True, "answer": " ".join(words)}


@register("breaks")
class Breaks(CircularFlow):
    """Fails."""

    expose = ("mcp", "openai")
    topology = (Node("Controller", "fail", role="controller"),)

    def fail(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        from perdure import FatalError

        raise FatalError("it is broken")


@register("asks")
class Asks(ControllerExecutorFlow):
    """Asks a question of the kind that its goal names: question, in_doubt, or budget.

    With the goal ``twice`` it asks two questions, and the answer is that to the second.
    """

    expose = ("mcp", "openai")
    budgets = {"tokens": 10}  # noqa: RUF012

    def decide(self, context: RoundContext) -> Any:
        if context.answered and context.goal == "twice" and context.observation is None:
            return Command("idle")
        if context.answered:
            return Finish(context.answer)
        if context.goal == "budget":
            if context.observation is not None:
                return Finish("rich")
            context.spend(tokens=20)
            return Command("idle")
        about = {"command": "pay", "args": {"to": "ann"}, "key": f"{context.run_id}:0:x"}
        data = {"in_doubt": about} if context.goal == "in_doubt" else {"ways": 2}
        return Interrupt("left or right?", data)

    @command(idempotent=True)
    def idle(self) -> str:
        """Do nothing."""
        return "idle"

    @command
    def pay(self, to: str) -> None:
        """Never called."""


@register("pauses")
class Pauses(Talk):
    """As ``talk``, and pauses before it says anything."""

    interrupt_before = ("Controller",)


@register("secluded")
class Secluded(Talk):
    """As ``talk``, and exposed to no other client."""

    expose = ()


@register("private")
class Private(Asks):
    """As ``asks``, and exposed to no other client."""

    expose = ()


@register("delegates")
class Delegates(CircularFlow):
    """Has its goal done by ``private``, and answers with what became of it."""

    expose = ("mcp", "openai")
    topology = (Node("Controller", "send", role="controller"),)

    def send(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        if context.goal != "question":
            context.stream("one moment")
        return {self.early_exit_key: True, "answer": context.child("private", "question")}


@register("hands_down")
class HandsDown(CircularFlow):
    """Has a question asked by the first of its input ``flows``, which hands it to the next."""

    expose = ("mcp", "openai")
    topology = (Node("Controller", "send", role="controller"),)

    def send(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        flow, *others = context.inputs["flows"]
        inputs = {"flows": others} if others else None
        return {self.early_exit_key: True, "answer": context.child(flow, "question", inputs)}


@register("hides_down")
class HidesDown(HandsDown):
    """As ``hands_down``, and exposed to no other client."""

    expose = ()


@register("asks_in_time")
class AsksInTime(CircularFlow):
    """Asks a question. At its deadline, the answer is null."""

    expose = ("mcp", "openai")
    topology = (Node("Controller", "ask", role="controller"),)

    def ask(self, state: dict[str, Any], context: RoundContext) -> Any:
        if not context.answered:
            return Interrupt("left or right?", deadline=3600)
        return {self.early_exit_key: True, "answer": {"told": context.answer}}


class Unit(BaseModel):
    """A unit of weight."""

    name: str


class Weight(BaseModel):
    """A weight."""

    amount: float
    unit: Unit


@register("weighs")
class Weighs(CircularFlow):
    """Answers with a weight, of its goal in grams. Without a number it asks."""

    expose = ("mcp", "openai")
    Answer = Weight
    topology = (Node("Controller", "weigh", role="controller"),)

    def weigh(self, state: dict[str, Any], context: RoundContext) -> Any:
        text = context.answer if context.answered else context.goal
        if not str(text).isdecimal():
            return Interrupt("how much?")
        return {self.early_exit_key: True, "answer": Weight(amount=int(text), unit=Unit(name="g"))}
