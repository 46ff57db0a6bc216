"""Flows with different ends and pauses."""

from __future__ import annotations

from typing import Any

from perdure import (
    Advance,
    CircularFlow,
    Command,
    Controller,
    ControllerExecutorFlow,
    Finish,
    Flow,
    Node,
    Outcome,
    Role,
    RoundContext,
    command,
    register,
)
from perdure.flows.commands.controller import controller
from perdure.flows.rings.human import Person


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
    """Always replies without a command, after any number of corrections."""

    reads_errors = True

    def decide(self, context: RoundContext) -> Any:
        return "no command at all"


@register("misunderstood")
class Misunderstood(ControllerExecutorFlow):
    """Its controller never names a command."""

    controller = Stubborn()


#: The pages that were fetched in this process, as often as they were.
FETCHED: list[int] = []


@register("pager")
class Pager(ControllerExecutorFlow):
    """Fetches as many pages as its inputs say, one a cycle; its own code decides."""

    def decide(self, context: RoundContext) -> Command | Finish:
        page = len(context.history)
        return (
            Finish(f"{page} pages")
            if page == context.inputs["pages"]
            else Command("fetch", {"page": page})
        )

    @command(idempotent=True)
    def fetch(self, page: int) -> str:
        """Fetch a page."""
        FETCHED.append(page)
        return f"page {page}"


@register("plain_loop")
class PlainLoop(Flow):
    """A flow of one node that goes round for ever."""

    max_rounds = 2

    @property
    def nodes(self) -> dict[str, Role]:
        return {"Loop": "executor"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        return Advance("Loop", values={"n": context.values.get("n", 0) + 1}, ends_cycle=True)
