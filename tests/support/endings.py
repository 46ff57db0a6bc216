"""Flows whose ends and pauses tests look at; registered in workers by ``HOLDFAST_FLOW_MODULES=tests.support.endings``."""

from __future__ import annotations

from typing import Any

from flows import CircularFlow, Controller, ControllerExecutorFlow, Node, RoundContext, command, register
from flows.controllers import controller
from flows.human import Person


@register("relay")
class Relay(CircularFlow):
    """Two nodes, and the second ends the run."""

    topology = (Node("Fetch", "fetch"), Node("Report", "report"))

    def fetch(self, given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {"page": 1}

    def report(self, given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {"EARLY_EXIT": True, "answer": "reported", "status": "finished"}


@register("person_decides")
class PersonDecides(ControllerExecutorFlow):
    """A person is the controller."""

    controller = Person()
    max_rounds = 5

    @command(idempotent=True)
    def note(self, text: str) -> str:
        """Write it down."""
        return text


@controller("stubborn")
class Stubborn(Controller):
    """Replies what is no command."""

    def decide(self, context: RoundContext) -> Any:
        return "no command at all"


@register("misunderstood")
class Misunderstood(ControllerExecutorFlow):
    """Its controller never names a command."""

    controller = Stubborn()
