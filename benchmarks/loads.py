"""Flows whose rounds carry, add or wait for something; for the benchmarks of how cost grows."""

from __future__ import annotations

import socket
from typing import Any

from flows import Advance, CircularFlow, Flow, Node, Outcome, RoundContext, Turn, register


@register("carrying")
class Carrying(CircularFlow):
    """Rounds with nothing in them, and as many bytes of state as the input ``bytes`` says, written anew by each."""

    topology = (Node("Controller", "nothing", role="controller"), Node("Executor", "nothing"))

    def nothing(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {self.early_exit_key: context.step + 1 >= context.inputs["rounds"], "state": "x" * context.inputs["bytes"]}


@register("adding")
class Adding(Flow):
    """Rounds that never end; each adds a turn of as many bytes as the input ``bytes`` says to the history."""

    nodes = {"Executor": "executor"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        return Advance(node, turns=(Turn(None, "x" * context.inputs["bytes"]),))


@register("waiting")
class Waiting(CircularFlow):
    """Rounds that each wait for an answer on a socket of their own, as one that asks a model does."""

    topology = (Node("Executor", "ask"),)

    def ask(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        with socket.create_connection(("127.0.0.1", context.inputs["port"]), timeout=60) as asked:
            asked.sendall(b"?\n")
            answered = asked.recv(16)
        return {self.early_exit_key: context.step + 1 >= context.inputs["rounds"], "answer": answered.decode()}
