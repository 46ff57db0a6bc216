"""Flows whose commands are other flows, and flows that carry out several calls at once."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from perdure import (
    CircularFlow,
    Command,
    Controller,
    ControllerExecutorFlow,
    FatalError,
    Finish,
    Interrupt,
    Node,
    RoundContext,
    flow_command,
    register,
)


class Player(Controller):
    """Decides what ``inputs["replies"]`` says, in order, then finishes with all observations.

    A reply is ``[name, args]``, or a list of them, as of a model that calls several tools at once.
    """

    reads_errors = True

    def decide(self, context: RoundContext) -> Any:
        replies = context.inputs["replies"]
        decided = context.values.get("decided", 0)
        context.remember("decided", decided + 1)
        if decided >= len(replies):
            return Finish([turn.observation for turn in context.history])
        reply = replies[decided]
        if isinstance(reply[0], str):
            return Command(*reply)
        return [
            Command(name, args, call=f"call-{place}", part=place)
            for place, (name, args) in enumerate(reply)
        ]


class Source(BaseModel):
    """A place to look at."""

    url: str


@register("scout")
class Scout(CircularFlow):
    """Finds something out."""

    topology = (Node("Look", "look"),)

    class Inputs(BaseModel):
        """What a scout is told."""

        depth: int = Field(default=1, ge=1, le=3, description="How deep to look.")
        how: Literal["answer", "fail", "ask", "unfinished"] = "answer"
        sources: list[Source] = []

    def look(self, state: dict[str, Any], context: RoundContext) -> Any:
        how = context.inputs["how"]
        if how == "fail":
            raise FatalError("there is nothing")
        if how == "ask" and not context.answered:
            return Interrupt("look further?")
        if how == "unfinished":
            return {}
        answer = f"{context.goal}, {context.inputs['depth']} deep"
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}


def scouting(name: str = "research", **options: Any) -> Any:
    return flow_command(name, **{"flow": "scout", "description": "Find out.", **options})


@register("chief")
class Chief(ControllerExecutorFlow):
    """Lets others find things out."""

    class Inputs(BaseModel):
        """What it decides."""

        replies: list[Any] = []

    controller = Player()
    commands = (
        scouting(),
        scouting("careful", approval="always", deadline="1m", max_rounds=2, labels={"a": "b"}),
        scouting("lost", flow="no-such-flow"),
        scouting("again", flow="chief"),
    )


@register("coded-chief")
class CodedChief(ControllerExecutorFlow):
    """Lets a scout find something out, as code decides."""

    commands = (scouting(),)

    def decide(self, context: RoundContext) -> Any:
        if len(context.history):
            return Finish(context.observation)
        return Command("research", {"goal": context.goal, "how": context.inputs["how"]})
