"""The flows that trials play, beside tests/support/example_flows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure import (
    Child,
    CircularFlow,
    ControllerExecutorFlow,
    FatalError,
    Node,
    Renew,
    RoundContext,
    command,
    register,
)
from perdure.flows.controllers.model import ModelController


@register("trial_item")
class TrialItem(CircularFlow):
    """A child that answers 1 after ``seconds``; at the place ``fails`` it fails until a file is there."""

    topology = (Node("Work", "work"),)

    def work(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        inputs = context.inputs
        if inputs["place"] == inputs.get("fails") and not Path(inputs["until"]).exists():
            raise FatalError("planted")
        context.cancelled.wait(inputs.get("seconds", 0))
        return {self.early_exit_key: True, "answer": 1}


@register("trial_map")
class TrialMap(CircularFlow):
    """A parent of ``items`` children, ``at_once`` at a time; answers with the sum of their answers."""

    topology = (Node("Spread", "spread"),)

    def spread(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        inputs = context.inputs
        ended = context.map(
            "trial_item",
            range(inputs["items"]),
            inputs=lambda place: {"place": place, **inputs.get("child", {})},
            max_concurrency=inputs["at_once"],
            wait="settled",
            **inputs.get("options", {}),
        )
        context.once("joined", lambda: context.remember("joined", context.attempt))
        return {self.early_exit_key: True, "answer": sum(each.answer or 0 for each in ended)}


@register("trial_starter")
class TrialStarter(CircularFlow):
    """A parent of one child, in a role of its own: only the trial's processes play it."""

    topology = (Node("Send", "send", role="controller"),)

    def send(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        context.gather([Child("trial_item", "go", {"place": 0})])
        return {self.early_exit_key: True, "answer": 1}


@register("trial_level")
class TrialLevel(CircularFlow):
    """A tree: ten children each, ``depth`` generations deep, of which the last waits for a signal."""

    topology = (Node("Grow", "grow"),)

    def grow(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        depth, width = context.inputs["depth"], context.inputs["width"]
        if depth == 0:
            context.wait_for("never")
        else:
            context.map(
                "trial_level",
                range(width),
                inputs=lambda _: {"depth": depth - 1, "width": width},
                max_concurrency=width,
            )
        return {self.early_exit_key: True, "answer": 1}


@register("trial_mail")
class TrialMail(CircularFlow):
    """Takes ``paid`` with payloads ``SENDER:NUMBER``, one a round, until it has ``total``.

    It answers with the payloads that are not the next of their sender. Every ``renews`` rounds it
    renews itself.
    """

    topology = (Node("Take", "take"),)
    max_rounds = None
    keep_events = 1_000

    def take(self, state: dict[str, Any], context: RoundContext) -> Any:
        inputs, signal = context.inputs, context.wait_for("paid")
        assert signal is not None
        taken, expected = state.get("taken", 0) + 1, dict(state.get("expected", {}))
        sender, _, number = signal.payload.partition(":")
        wrong = list(state.get("wrong", []))
        if int(number) != expected.get(sender, 0):
            wrong.append(signal.payload)
        values = {"taken": taken, "expected": {**expected, sender: int(number) + 1}, "wrong": wrong}
        if taken == inputs["total"]:
            return {self.early_exit_key: True, "answer": wrong}
        renews = inputs.get("renews")
        return Renew(values=values) if renews and taken % renews == 0 else values


@register("trial_guest")
class TrialGuest(ControllerExecutorFlow):
    """A model walks on and on."""

    controller = ModelController(max_tokens=20)
    max_rounds = None

    @command(idempotent=True)
    def step(self) -> str:
        """One step."""
        return "on"


@register("trial_party")
class TrialParty(CircularFlow):
    """A parent of ``count`` children of a model."""

    topology = (Node("Invite", "invite"),)

    def invite(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        children = [Child("trial_guest", f"walk {each}") for each in range(context.inputs["count"])]
        ended = context.gather(children, wait="settled")
        return {self.early_exit_key: True, "answer": len(ended)}
