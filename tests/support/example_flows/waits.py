"""Flows whose nodes wait: for a time, for signals, in commands, and in wrong ways."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure import (
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    Finish,
    Node,
    RoundContext,
    command,
    register,
)


@register("payment")
class Payment(CircularFlow):
    """Charges once, waits for ``paid`` or ``withdrawn`` for ``timeout``, naps for ``nap``, then
    answers with the signals.
    """

    topology = (Node("Pay", "pay"),)
    max_rounds = None

    def pay(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        charge = context.once("charge", lambda: f"charge of attempt {context.attempt}")
        got = []
        for _ in range(context.inputs.get("times", 1)):
            signal = context.wait_for("paid", "withdrawn", timeout=context.inputs.get("timeout"))
            got.append(None if signal is None else [signal.name, signal.number, signal.payload])
        if "nap" in context.inputs:
            context.sleep(context.inputs["nap"])
        return {self.early_exit_key: True, "answer": [charge, *got], "status": "finished"}


@register("stamps")
class Stamps(CircularFlow):
    """In each of its rounds, waits for as many signals ``stamp`` as ``rounds`` says."""

    topology = (Node("Stamp", "stamp"),)

    def stamp(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        rounds = context.inputs["rounds"]
        done = state.get("done", [])
        got = [context.wait_for("stamp", "seal") for _ in range(rounds[len(done)])]
        done = [*done, [(signal.name, signal.payload) for signal in got if signal]]
        if len(done) == len(rounds):
            return {self.early_exit_key: True, "answer": done, "status": "finished"}
        return {"done": done}


@register("swallower")
class Swallower(CircularFlow):
    """Catches everything, its own wait too."""

    topology = (Node("Nap", "nap"),)

    def nap(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        with suppress(BaseException):
            context.sleep(60)
        return {self.early_exit_key: True, "answer": None, "status": "finished"}


class Orders(ControllerExecutorFlow):
    """Coded decisions: confirm an order, then finish with the command's result."""

    def decide(self, context: RoundContext) -> Command | Finish:
        if context.observation is None:
            return Command(context.inputs["command"])
        return Finish(context.observation)

    @command(waits=True)
    def confirm(self, context: RoundContext) -> Any:
        """Wait for the customer."""
        signal = context.wait_for("confirmed", timeout=60)
        return None if signal is None else signal.payload

    @command
    def hasty(self, context: RoundContext) -> Any:
        """Wait without having said so."""
        return context.wait_for("confirmed")

    @command(idempotent=True)
    async def gentle(self, context: RoundContext) -> Any:
        """Wait in a coroutine."""
        signal = context.wait_for("confirmed")
        return None if signal is None else signal.payload


register("orders")(Orders)


@register("collector")
class Collector(CircularFlow):
    """Takes ``paid`` as it comes, round by round, until it has as many as ``total``; answers with their payloads."""

    topology = (Node("Take", "take"),)
    output_keys = ("seen",)
    max_rounds = None

    def take(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        signal, seen = context.wait_for("paid"), list(state.get("seen", []))
        while signal is not None:
            seen.append(signal.payload)
            signal = context.take("paid")
        if len(seen) < context.inputs["total"]:
            return {"seen": seen}
        return {self.early_exit_key: True, "answer": seen, "status": "finished"}


@register("hooked")
class Hooked(CircularFlow):
    """Waits for ``paid`` by a hook, whose address it writes into the file of its goal, an attempt a line."""

    topology = (Node("Wait", "wait"),)

    def wait(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        with open(context.goal, "a", encoding="utf-8") as file:
            file.write(context.hook("paid") + "\n")
        signal = context.wait_for("paid")
        return {self.early_exit_key: True, "answer": signal and signal.payload, "status": "done"}


@register("listener")
class Listener(CircularFlow):
    """Listens in each of its rounds to the topics of its goal ({run}: its own id), until it has got ``paid`` ``total`` times.

    With ``hangs`` the attempt that finds no such file writes it and hangs.
    """

    topology = (Node("Listen", "listen"),)
    output_keys = ("seen",)
    max_rounds = None

    def listen(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        for topic in context.goal.split():
            context.listen(topic.replace("{run}", context.run_id))
        hangs = Path(context.inputs.get("hangs", "/"))
        if not hangs.exists():
            hangs.touch()
            time.sleep(600)
        signal = context.wait_for("paid")
        seen = [*state.get("seen", []), signal and signal.payload]
        if len(seen) < context.inputs.get("total", 1):
            return {"seen": seen}
        return {self.early_exit_key: True, "answer": seen, "status": "finished"}
