"""Prompts of rounds, as clients see them."""

from __future__ import annotations

from typing import Any

from pydantic import with_config
from typing_extensions import TypedDict

from perdure.worker.domain.document import CLOSED


@with_config(CLOSED)
class PromptOfRound(TypedDict):
    """What a round sent to its model, or what the next round would send."""

    run: str
    """The run."""
    step: int
    """The step of the round."""
    node: str
    """The node that asks the model."""
    turns: int
    """The number of turns of the history before it."""
    sent: bool
    """Whether the round was committed."""
    exact: bool | None
    """Whether this equals what was sent. Not set for the next round."""
    messages: list[dict[str, Any]]
    """The messages, each with its role."""
    tools: list[dict[str, Any]]
    """The commands that the model could call, as tool definitions."""
