"""Controllers, commands, nodes and interfaces that the flows of ``tests/support/flows`` name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure import (
    Command,
    Controller,
    Finish,
    RoundContext,
    add_directory,
    command,
    controller,
    interface,
    node,
)

DIRECTORY = Path(__file__).parents[1] / "flows"
add_directory(DIRECTORY)


@controller("doubling")
class Doubling(Controller):
    """Doubles ``start`` until it is at least ``limit``, with thoughts like a model's."""

    def __init__(self, limit: int, start: int = 1) -> None:
        self.limit, self.start = limit, start

    def decide(self, context: RoundContext) -> Any:
        number = context.observation if context.observation is not None else self.start
        if number >= self.limit:
            return {"thought": "enough", "command": "finish", "command_args": {"answer": number}}
        return {"thought": "not yet", "command": "test.double", "command_args": {"number": number}}


@controller("recalling")
class Recalling(Controller):
    """Doubles until ``entries`` turns are offered by the memory, and answers with them."""

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def decide(self, context: RoundContext) -> Command | Finish:
        recalled = context.values["recalled"]
        if len(recalled) >= self.entries:
            return Finish(
                [
                    [entry["command_args"]["number"], entry["observation"], entry["human_feedback"]]
                    for entry in recalled
                ]
            )
        return Command("test.double", {"number": recalled[-1]["observation"] if recalled else 1})


@command(name="test.double", idempotent=True)
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


@node("test.count")
def count(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
    """Count the visits, and end the ring at the number of the inputs."""
    seen = given.get("seen", 0) + 1
    return {
        "seen": seen,
        "EARLY_EXIT": seen >= given["times"],
        "answer": seen,
        "status": "finished",
    }


@interface("test.as_branch")
def as_branch(data: dict[str, Any]) -> dict[str, Any]:
    """Return the doubling of the count, as a choice of commands takes it."""
    return {"branch": "test.double", "branch_input_data": {"number": data["seen"]}}
