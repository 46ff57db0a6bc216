"""Names that OpenTelemetry's conventions for generative AI give to what a round does; the round's span says it under them."""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOOL = "gen_ai.tool.name"

#: Operations: a request to a model, a command carried out.
CHAT, EXECUTE_TOOL = "chat", "execute_tool"
