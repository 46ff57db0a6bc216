"""The flows of ``perdure demo``: a run that hands a review of a repository to three agents."""

from __future__ import annotations

import subprocess
from typing import Any

from pydantic import BaseModel

from perdure.flows.commands.command import command
from perdure.flows.core.errors import RetryableError
from perdure.flows.core.outcomes import Command, Finish
from perdure.flows.library.git.environment import clean_environment
from perdure.flows.rings.circular import CircularFlow, Node
from perdure.flows.rings.controller_executor import ControllerExecutorFlow
from perdure.flows.rounds.children import Child
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.registry import register

#: Seconds that one count takes. It is longer than a test of the bisection, so that a kill in that
#: run's third test finds the other agents at work.
LOOK_SECONDS = 0.6
#: The goods that the two counting agents count.
COUNTED = (("tea", "milk", "bread", "salt"), ("rice", "beans", "flour", "oats"))


@register("demo_review")
class Review(CircularFlow):
    """Have three agents look at a repository at the same time, and collect their answers."""

    topology = (Node("Ask", "ask"),)

    class Inputs(BaseModel):
        repo: str
        good: str
        bad: str
        test: str

    def ask(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        """Start the agents, and wait until all have answered."""
        inputs = context.inputs
        agents = [
            Child("bisect", "which commit broke the till?", dict(inputs)),
            *(
                Child(
                    "demo_count",
                    f"count {', '.join(goods)}",
                    {"repo": inputs["repo"], "revision": inputs["bad"], "goods": list(goods)},
                )
                for goods in COUNTED
            ),
        ]
        found = context.gather(agents)
        answer = {"commit": found.answers[0]["commit"], "lots": found.answers[1:]}
        return {"EARLY_EXIT": True, "answer": answer, "status": "finished"}


@register("demo_count")
class Count(ControllerExecutorFlow):
    """Count the lots of some goods, one after another, and of goods that people name meanwhile."""

    max_rounds = None

    class Inputs(BaseModel):
        repo: str
        revision: str
        goods: list[str]

    def decide(self, context: RoundContext) -> Command | Finish:
        """Return the command that counts the next goods, or finish. The answer has all counts."""
        wanted = [*context.inputs["goods"], *context.said]
        counts = [turn.observation for turn in context.history]
        if len(counts) == len(wanted):
            return Finish(dict(zip(wanted, counts, strict=True)))
        return Command("count", {"goods": wanted[len(counts)]})

    @command(idempotent=True)
    def count(self, context: RoundContext, goods: str) -> int:
        """Return the number of commits that took up a lot of these goods."""
        context.cancelled.wait(LOOK_SECONDS)
        done = subprocess.run(
            ["git", "rev-list", "--count", f"--grep=^Take up {goods},", context.inputs["revision"]],
            cwd=context.inputs["repo"],
            env=clean_environment(LC_ALL="C"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RetryableError(f"git rev-list failed: {done.stderr.strip()}")
        return int(done.stdout)
