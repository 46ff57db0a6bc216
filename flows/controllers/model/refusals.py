"""Refusals: what becomes of a run whose model, or its provider, refuses to go on."""

from __future__ import annotations

from collections.abc import Mapping

from flows.context import RoundContext
from flows.controllers.model.chat import ChatMessage, Reply, UserMessage
from flows.controllers.model.messages import text_of
from flows.errors import FatalError
from flows.outcomes import Interrupt
from flows.summaries import safe_text

#: Characters of a refusal that are told.
LENGTH = 1_000
#: The name under which a question to a person holds the refusal.
REFUSAL = "refusal"


def refused(reply: Reply, becomes: str) -> Interrupt:
    """Return the question to a person, where the flow says ``refusal: ask``.

    Raises:
        FatalError: the flow says ``refusal: end``.
    """
    words = safe_text(reply.refusal.strip(), LENGTH)
    if becomes != "ask":
        raise FatalError(f"the model refuses: {words} (holdfast retry RUN asks it again; refusal: ask, in the flow, asks a person)")
    return Interrupt(f"The model refuses: {words} What should it be told?", {REFUSAL: words})


def after_refusal(context: RoundContext) -> list[ChatMessage]:
    """Return what the model is told where a person has answered its refusal."""
    asked = context.asked
    if not context.answered or not isinstance(asked, Mapping) or REFUSAL not in asked:
        return []
    return [UserMessage(f"You refused: {asked[REFUSAL]}\nA person says: {text_of(context.answer)}")]
