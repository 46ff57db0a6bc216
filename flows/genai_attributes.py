"""Attribute names of OpenTelemetry's conventions for generative AI, used on the round's span."""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL = "gen_ai.tool.name"
#: Content, which is traced only if the setting ``trace_content`` says so. JSON texts.
SYSTEM, INPUT, OUTPUT, DEFINITIONS = (
    "gen_ai.system_instructions",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.definitions",
)
TOOL_ARGUMENTS, TOOL_RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
#: Characters of one attribute with content. A longer one is cut.
MOST_CONTENT = 100_000

#: The operations: a request to a model, and the execution of a command.
CHAT, EXECUTE_TOOL = "chat", "execute_tool"
