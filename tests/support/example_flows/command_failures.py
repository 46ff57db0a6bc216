"""Flows with commands that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure import (
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    Finish,
    Node,
    RetryableError,
    RoundContext,
    command,
    register,
)


@register("pages")
class Pages(ControllerExecutorFlow):
    """Ten pages, one a round, decided by code; page 4 fails as often as the file named by the input ``faults`` has lines.

    Inputs: ``faults``; ``name`` of the command that is decided (``fetch``).
    """

    max_rounds = None

    def decide(self, context: RoundContext) -> Command | Finish:
        if len(context.history) == 10:
            return Finish([turn.observation for turn in context.history])
        return Command(context.inputs.get("name", "fetch"), {"page": len(context.history)})

    @command(idempotent=True)
    def fetch(self, context: RoundContext, page: int) -> int:
        """Fetch a page; it may be fetched twice."""
        return fails_at_four(context, page)

    @command
    def charge(self, context: RoundContext, page: int) -> int:
        """Charge for a page; it must not happen twice."""
        return fails_at_four(context, page)

    @command(errors="observe")
    def look(self, context: RoundContext, page: int) -> int:
        """Look at a page; that it is not there is an answer as well."""
        return fails_at_four(context, page)


@register("busy")
class Busy(CircularFlow):
    """One node whose provider is busy for the first ``times`` attempts, and says so with ``retry_after``."""

    topology = (Node("Executor", "ask"),)
    max_rounds = None

    def ask(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        if context.attempt <= context.inputs["times"]:
            raise RetryableError(
                "the provider answers 429",
                retry_after=context.inputs.get("retry_after"),
                counts=False,
            )
        return {self.early_exit_key: True, "answer": context.attempt, "status": "finished"}


def fails_at_four(context: RoundContext, page: int) -> Any:
    """Raise ConnectionError at page 4, once for each line of the file."""
    faults = Path(context.inputs["faults"])
    if page == 4 and (lines := faults.read_text().splitlines()):
        faults.write_text("\n".join(lines[1:]))
        raise ConnectionError("page 4 is not there")
    return page
