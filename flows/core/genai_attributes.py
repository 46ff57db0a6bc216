"""Attribute names of OpenTelemetry's GenAI conventions, for the round's span."""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL, TOOL_CALL = "gen_ai.tool.name", "gen_ai.tool.call.id"
#: Content, which is traced only if the setting ``trace_content`` is on: the name of the run's
#: thread, which may be that of a person, and JSON texts.
CONVERSATION = "gen_ai.conversation.id"
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

#: The conventions' names of providers which the model library calls otherwise.
PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
