"""PromptOfRound: the prompt that a round sends to its model, as clients see it."""

from __future__ import annotations

from typing import Any

from pydantic import with_config
from typing_extensions import TypedDict

from perdure.worker.domain.document import CLOSED


@with_config(CLOSED)
class PromptOfRound(TypedDict):
    """The prompt that a round sent to its model, or that the next round would send."""

    run: str
    """The run."""
    step: int
    """The step of the round."""
    node: str
    """The node that asks the model."""
    turns: int
    """The number of turns in the history before the round."""
    sent: bool
    """Whether the round was committed."""
    exact: bool | None
    """Whether this prompt equals the sent prompt. Not set for the next round."""
    messages: list[dict[str, Any]]
    """The messages, each with its role."""
    tools: list[dict[str, Any]]
    """The commands that the model could call, as tool definitions."""
