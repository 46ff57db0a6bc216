"""Flows with growing or waiting rounds. They measure how cost grows."""

from __future__ import annotations

import socket
from typing import Any, ClassVar

from perdure import (
    Advance,
    CircularFlow,
    End,
    Flow,
    Node,
    Outcome,
    Renew,
    RoundContext,
    Turn,
    register,
)


@register("adding")
class Adding(Flow):
    """Rounds without end; each adds a turn of ``bytes`` bytes to the history."""

    nodes: ClassVar = {"Executor": "executor"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        return Advance(
            node, turns=(Turn(None, f"{context.step:08d}".ljust(context.inputs["bytes"], "x")),)
        )


@register("long")
class Long(Flow):
    """Rounds that each add a turn. It keeps few, and renews itself each ``every`` rounds."""

    nodes: ClassVar = {"Executor": "executor"}
    keep_turns = 500
    keep_events = 10_000

    def play(self, node: str, context: RoundContext) -> Outcome:
        inputs, done = context.inputs, context.step + 1
        turns = (Turn(None, f"{done:08d}".ljust(inputs["bytes"], "x")),)
        if done == inputs["rounds"]:
            return End(done, turns=turns)
        if done % inputs["every"] == 0:
            return Renew(values={"cursor": done}, keep_turns=20, turns=turns)
        return Advance(node, turns, {"cursor": done})


@register("waiter")
class Waiter(CircularFlow):
    """Rounds that each wait for a response on their own socket, like a request to a model."""

    topology = (Node("Executor", "ask"),)

    def ask(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        with socket.create_connection(("127.0.0.1", context.inputs["port"]), timeout=60) as asked:
            asked.sendall(b"?\n")
            answered = asked.recv(16)
        if not answered:
            raise ConnectionError("closed without an answer")
        return {
            self.early_exit_key: context.step + 1 >= context.inputs["rounds"],
            "answer": answered.decode(),
        }
