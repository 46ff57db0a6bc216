"""UsageCounter, which counts what the models of a graph's round have used."""

from __future__ import annotations

import threading
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

from perdure.flows.context import RoundContext


class UsageCounter(BaseCallbackHandler):
    """Counts what the models of a round have used."""

    run_inline = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[str, float] = {}
        self._model = ""

    def on_llm_end(self, response: LLMResult, **named: Any) -> None:
        """Add the usage of a response."""
        messages = [
            message
            for generations in response.generations
            for generation in generations[:1]
            if (message := getattr(generation, "message", None)) is not None
        ]
        with self._lock:
            for message in messages:
                usage = getattr(message, "usage_metadata", None) or {}
                self._add("tokens", usage.get("total_tokens", 0))
                self._add("input_tokens", usage.get("input_tokens", 0))
                self._add("output_tokens", usage.get("output_tokens", 0))
                self._add("requests", 1)
                told = getattr(message, "response_metadata", None) or {}
                self._model = str(told.get("model_name") or self._model)

    def _add(self, name: str, amount: float) -> None:
        self._spent[name] = self._spent.get(name, 0) + amount

    def charge(self, context: RoundContext) -> None:
        """Charge the budgets of the run."""
        with self._lock:
            context.spend(**self._spent)
            if self._model:
                context.tell(model=self._model[:200])
