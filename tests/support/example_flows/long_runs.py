"""Flows of very many rounds: they bound their stored data, and renew themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from perdure import (
    Advance,
    CircularFlow,
    Command,
    End,
    Flow,
    Node,
    Outcome,
    Renew,
    Role,
    RoundContext,
    Turn,
    register,
)


class Counts(Flow):
    """Adds a turn in each round, up to ``rounds``; every ``every`` rounds it renews itself."""

    class Inputs(BaseModel):
        rounds: int
        every: int = 0
        keep: int = 2

    @property
    def nodes(self) -> Mapping[str, Role]:
        return {"First": "executor", "Count": "executor"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        inputs = context.inputs
        count = context.values.get("count", 0) + 1
        turns = (Turn(Command("count", {"to": count}), count),)
        if count == inputs["rounds"]:
            seen = [turn.observation for turn in context.history]
            return End([node, count, len(context.history), seen], turns=turns)
        values = {"count": count, "node": node}
        if inputs["every"] and count % inputs["every"] == 0:
            return Renew(values=values, keep_turns=inputs["keep"], turns=turns)
        return Advance("Count", turns, values, ends_cycle=True)


@register("counts")
class Unbounded(Counts):
    """Keeps all."""


@register("counts_bounded")
class Bounded(Counts):
    """Keeps three turns and about ten events."""

    keep_turns = 3
    keep_events = 10


@register("counts_long")
class Long(Counts):
    """Keeps the most that a run of 100,000 rounds may keep."""

    keep_turns = 500
    keep_events = 10_000


@register("bounded_collector")
class Collector(CircularFlow):
    """Takes in signals ``item`` with the payloads 0, 1, 2, ..., one a round; every 100 of them it renews itself. None ends it."""

    topology = (Node("Begin", "begin"), Node("Collect", "collect"))
    keep_events = 1_000

    def begin(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {}

    def collect(self, state: dict[str, Any], context: RoundContext) -> Any:
        taken, wrong = state.get("taken", 0), state.get("wrong", [])
        item = context.wait_for("item")
        assert item is not None
        if item.payload is None:
            answer = {"taken": taken, "wrong": wrong}
            return {self.early_exit_key: True, "answer": answer, "status": "finished"}
        if item.payload != taken:
            wrong = [*wrong, [taken, item.payload]]
        values = {"taken": taken + 1, "wrong": wrong}
        return Renew(values=values) if (taken + 1) % 100 == 0 else values
