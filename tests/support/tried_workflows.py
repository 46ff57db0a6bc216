"""Plays rounds of a workflow function without a store, in a process that has not seen it before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perdure import History, RoundContext, Turn, make, workflow
from perdure.flows.rounds import registry


def context_after(turns: Sequence[Turn] = (), **fields: Any) -> RoundContext:
    """Return the context of the round after these turns."""
    history = History(len(turns), turns, lambda start, stop: [])
    return RoundContext("the goal", history=history, **fields)


def play_round(function: Callable[..., Any], context: RoundContext, **settings: Any) -> Any:
    """Play one round of a workflow with this function. A test uses it with ``own_registry``."""
    registry._definitions.pop("tried", None)
    workflow("tried", **settings)(function)
    return make("tried").play("Executor", context)
