"""Flows whose commands are other flows, and flows that carry out several calls at once."""

from __future__ import annotations

import threading
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
    command,
    flow_command,
    register,
)
from perdure.flows.controllers.model import ModelController
from perdure.flows.executors.files import read_artifact

#: Eight threads of one process.
MEETING = threading.Barrier(8)


class Player(Controller):
    """Decides by ``inputs["replies"]``, in order, then finishes with all observations.

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
        known = [turn.observation for turn in context.history]
        return [
            Command(
                name,
                {"name": known[args["of"]]["artifact"]} if "of" in args else args,
                call=f"call-{place}",
                part=place,
            )
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
        """The inputs of a scout."""

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
        """Its decision."""

        replies: list[Any] = []

    controller = Player()
    commands = (
        scouting(),
        scouting("careful", approval="always", deadline="1m", max_rounds=2, labels={"a": "b"}),
        scouting("patient", on_failure="hold"),
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


#: The finished commands of a swarm, in order.
DONE: list[str] = []


@register("swarm")
class Swarm(ControllerExecutorFlow):
    """Carries out up to eight calls of a reply at once."""

    controller: Controller | None = Player()
    parallel_calls = 8
    max_result = 1000
    commands = (scouting(max_concurrency=2), read_artifact)

    class Inputs(BaseModel):
        """Its decision."""

        replies: list[Any] = []
        deep: bool = False

    @command(idempotent=True)
    def look(self, context: RoundContext, what: str) -> str:
        """Look at something."""
        DONE.append(what)
        return f"{context.goal}: {what}"

    @command(approval=lambda args: args["what"] == "dear")
    def buy(self, what: str) -> str:
        """Buy something."""
        DONE.append(what)
        return f"bought {what}"

    @command
    def fail(self, how: str) -> str:
        """Fail."""
        raise (FatalError if how == "fatally" else ValueError)(f"failed {how}")

    @command
    def stumble(self) -> str:
        """Fail the first time."""
        DONE.append("stumbled")
        if DONE.count("stumbled") == 1:
            raise ValueError("once")
        return "x" * 2000

    @command(idempotent=True)
    def recite(self, length: int) -> str:
        """Say something long."""
        return "x" * length

    @command(idempotent=True)
    def note(self, context: RoundContext, what: str) -> str:
        """Remember something."""
        context.remember(f"noted_{what}", context.values.get("decided"))
        return what

    @command(idempotent=True)
    def give_up(self, why: str) -> Finish:
        """End the run."""
        return Finish(why)

    @command(idempotent=True)
    def meet(self) -> str:
        """Wait until eight calls are being played."""
        MEETING.wait(20)
        return "met"

    @command(idempotent=True)
    def key(self, context: RoundContext) -> str:
        """The idempotency key, and the order of the attempts."""
        return context.idempotency_key


@register("model-swarm")
class ModelSwarm(Swarm):
    """A swarm that a model leads."""

    class Inputs(BaseModel):
        """It expects nothing."""

    controller = ModelController(timeout_seconds=3)


@register("coded-swarm")
class CodedSwarm(Swarm):
    """Decides two calls at once, as code does, and answers with the artifact of the last one."""

    controller = None

    def decide(self, context: RoundContext) -> Any:
        if not len(context.history):
            return [Command(*each) for each in context.inputs["replies"]]
        name = context.observation["artifact"]
        return Finish([name, len(context.artifact(name))])


@register("diver")
class Diver(Swarm):
    """Lets another run of its kind decide several calls."""

    commands = (flow_command("dive", flow="swarm"),)


@register("watched-swarm")
class WatchedSwarm(Swarm):
    """A person looks at each reply before it is carried out."""

    interrupt_before = ("Executor",)
    interrupt_after = ("Executor",)


@register("gossip")
class Talker(Swarm):
    """Has long results in its history."""

    max_result = 32_000


@register("peeping")
class Peeping(CircularFlow):
    """Answers with an artifact of any run."""

    topology = (Node("Look", "look"),)

    def look(self, state: dict[str, Any], context: RoundContext) -> Any:
        try:
            found = context.artifact(context.inputs["name"])
        except KeyError as error:
            found = str(error)
        return {self.early_exit_key: True, "answer": found, "status": "finished"}
