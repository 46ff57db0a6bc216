"""Models of servers that speak OpenAI's protocol and are named by their URL alone: what they say of the cost is read.

OpenRouter, LiteLLM and other gateways say in ``usage.cost`` what a request costs. The model library reads that through the prefix
``openrouter:`` alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk


class CompatibleChatModel(OpenAIChatModel):
    """A model whose replies hold ``cost`` in their provider's details, where its server says so."""

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _CompatibleStream


class _CompatibleStream(OpenAIStreamedResponse):
    def _map_chunk_provider_details(self, chunk: ChatCompletionChunk) -> dict[str, Any] | None:
        details = super()._map_chunk_provider_details(chunk)
        cost = None if chunk.usage is None else (chunk.usage.model_extra or {}).get("cost")
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not math.isfinite(cost) or cost < 0:
            return details
        return {**(details or {}), "cost": cost}
