"""Workflows of empty steps, and a declared flow. The flow is their base of comparison."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.tally import stamp
from perdure import (
    Advance,
    AsyncSteps,
    Command,
    CommandSpec,
    End,
    Flow,
    Outcome,
    RoundContext,
    Steps,
    Turn,
    register,
    workflow,
)


@register("declared")
class Declared(Flow):
    """Rounds that each append a turn, as a step of a workflow does.

    Without ``idempotent``, they carry out a command, whose intent is recorded first.
    """

    nodes: ClassVar = {"Executor": "executor"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        args = {"place": context.step}
        if context.inputs["idempotent"]:
            result = empty(context.step)
        else:
            result = CommandSpec("empty", empty).carry_out(args, context)
        turns = (Turn(Command("empty", args), {"result": result}),)
        done = context.step + 1 == context.inputs["rounds"]
        return End(result, turns=turns) if done else Advance(node, turns)


@workflow("empty-steps")
def empty_steps(steps: Steps, rounds: int, idempotent: bool) -> int:
    """Carry out as many empty steps."""
    for place in range(rounds):
        steps.step(empty, place, idempotent=idempotent)
    return rounds


@workflow("async-empty-steps")
async def async_empty_steps(steps: AsyncSteps, rounds: int, idempotent: bool) -> int:
    """Carry out as many empty steps, in a coroutine."""
    for place in range(rounds):
        await steps.step(empty, place, idempotent=idempotent)
    return rounds


def empty(place: int) -> str:
    """Report its beginning, and return a short text."""
    stamp()
    return f"result of {place}"
