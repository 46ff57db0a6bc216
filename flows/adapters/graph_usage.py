"""UsageCounter, which counts the model usage of a graph's round."""

from __future__ import annotations

import threading
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

from perdure.flows.rounds.context import RoundContext


class UsageCounter(BaseCallbackHandler):
    """A callback handler that charges usage to the budgets. It counts all models of a round."""

    run_inline = True

    def __init__(self, context: RoundContext) -> None:
        self._lock = threading.Lock()
        self._context = context

    def on_llm_end(self, response: LLMResult, **named: Any) -> None:
        """Charge a model response's usage to the budgets."""
        messages = [
            message
            for generations in response.generations
            for generation in generations[:1]
            if (message := getattr(generation, "message", None)) is not None
        ]
        with self._lock:
            for message in messages:
                usage = getattr(message, "usage_metadata", None) or {}
                self._context.spend(
                    tokens=usage.get("total_tokens", 0),
                    input_tokens=usage.get("input_tokens", 0),
                    output_tokens=usage.get("output_tokens", 0),
                    requests=1,
                )
                told = getattr(message, "response_metadata", None) or {}
                if model := told.get("model_name"):
                    self._context.tell(model=str(model)[:200])
