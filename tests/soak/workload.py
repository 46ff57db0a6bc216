"""The soak's flows: each round writes down that it was tried, takes its time, and sends one effect
under its idempotency key.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from perdure import Child, CircularFlow, Node, RoundContext, register
from tests.soak.ledger import Ledger

#: In the environment of workers: the ledger's directory.
LEDGER = "SOAK_LEDGER"
#: The flow of runs without a parent, of parents, and of their children.
ALONE, FAMILY, CHILD = "soak", "soak_family", "soak_child"
#: A parent's children, the rounds of each, the rounds of the parent, and the signal that it waits
#: for.
CHILDREN, CHILD_ROUNDS, FAMILY_ROUNDS, SIGNAL = 3, 2, 3, "go"


@cache
def ledger() -> Ledger:
    """Return the ledger of this process."""
    return Ledger(Path(os.environ[LEDGER]))


def play(state: dict[str, Any], context: RoundContext) -> list[int]:
    """Record the round, take its time, send its effect, and return the steps of the run so far."""
    what = context.run_id, context.step, context.attempt, context.idempotency_key
    ledger().tried(*what)
    if context.cancelled.wait(context.inputs["seconds"]):
        context.raise_if_stopped()
    ledger().apply(*what)
    return [*state.get("seen", []), context.step]


@register(ALONE)
class Soak(CircularFlow):
    """Two nodes in turn; the answer is the steps that were committed, so that a step lost or doubled shows.

    Inputs: ``rounds``, and ``seconds`` that each round takes.
    """

    topology = (Node("Controller", "write", role="controller"), Node("Executor", "write"))
    max_rounds = None

    def write(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        seen = play(state, context)
        if len(seen) >= context.inputs["rounds"]:
            answer = self.answer(seen, context)
            return {"seen": seen, self.early_exit_key: True, "answer": answer, "status": "finished"}
        return {"seen": seen}

    def answer(self, seen: list[int], context: RoundContext) -> Any:
        """Return the run's answer after its last round."""
        return seen


@register(CHILD)
class SoakChild(Soak):
    """A child: its answer says its place too, so that answers in another order show.

    Inputs: also ``place``.
    """

    def answer(self, seen: list[int], context: RoundContext) -> Any:
        return {"place": context.inputs["place"], "seen": seen}


@register(FAMILY)
class SoakFamily(CircularFlow):
    """A parent that waits for its children, then for a signal, then checks that the signal does not come again.

    A round is recorded when its wait is over. Inputs: ``seconds`` of each round, also of its children's.
    """

    topology = (
        Node("Gather", "gather", role="controller"),
        Node("Hear", "hear"),
        Node("Close", "close"),
    )
    max_rounds = None

    def gather(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        inputs = {"rounds": CHILD_ROUNDS, "seconds": context.inputs["seconds"]}
        children = [
            Child(CHILD, f"{context.goal}-{place}", {**inputs, "place": place})
            for place in range(CHILDREN)
        ]
        answers = context.gather(children).answers
        return {"answers": answers, "seen": play(state, context)}

    def hear(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        signal = context.wait_for(SIGNAL)
        return {"signal": signal and signal.payload, "seen": play(state, context)}

    def close(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        again = context.take(SIGNAL)
        answer = {
            "seen": play(state, context),
            "answers": state["answers"],
            "signal": state["signal"],
            "again": again and again.payload,
        }
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}
