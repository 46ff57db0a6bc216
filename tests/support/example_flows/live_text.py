"""A flow whose rounds show text before they end."""

from __future__ import annotations

import os
from typing import Any

from perdure import CircularFlow, Node, RetryableError, RoundContext, register


@register("telling")
class Telling(CircularFlow):
    """Each round shows words one by one, and returns them as one text."""

    topology = (Node("Controller", "tell", role="controller"),)
    max_rounds = None

    def tell(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        words = [f"{context.step}.{number} " for number in range(context.inputs.get("words", 20))]
        gate = context.inputs.get("gate")
        for number, word in enumerate(words):
            context.stream(word)
            context.cancelled.wait(context.inputs.get("pause", 0))
            if gate and number == len(words) // 2 and context.attempt <= context.inputs["fails"]:
                if not os.path.exists(gate):
                    raise RetryableError("half of it")
                context.cancelled.wait(60)
        texts = [*state.get("texts", []), "".join(words)]
        done = len(texts) >= context.inputs.get("rounds", 2)
        return {self.early_exit_key: done, "texts": texts, "answer": texts}
