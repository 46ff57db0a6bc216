"""Flows whose rounds add or wait for something, to measure how cost grows."""

from __future__ import annotations

import socket
from typing import Any, ClassVar

from perdure import Advance, CircularFlow, Flow, Node, Outcome, RoundContext, Turn, register


@register("adding")
class Adding(Flow):
    """Rounds without end; each adds a turn of ``bytes`` bytes to the history."""

    nodes: ClassVar = {"Executor": "executor"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        return Advance(
            node, turns=(Turn(None, f"{context.step:08d}".ljust(context.inputs["bytes"], "x")),)
        )


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
