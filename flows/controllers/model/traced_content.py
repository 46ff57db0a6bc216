"""The content of a model request and its reply, as attributes of the round's span.

The form is that of OpenTelemetry's conventions for generative AI (``gen_ai.input.messages`` and so
on), version 1.37: lists of messages with parts, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.flows.controllers.model.chat import (
    AnswerMessage,
    AssistantMessage,
    ChatMessage,
    Reply,
    SystemMessage,
    ToolCall,
)
from perdure.flows.core.genai_attributes import DEFINITIONS, INPUT, MOST_CONTENT, OUTPUT, SYSTEM
from perdure.flows.core.json_values import canonical


def of_request(
    messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return the attributes for a request's messages and tools, as JSON texts by name."""
    system = [_text(each.text) for each in messages if isinstance(each, SystemMessage)]
    others = [_message(each) for each in messages if not isinstance(each, SystemMessage)]
    definitions = [{"type": "function", **each} for each in tools]
    told = {SYSTEM: system, INPUT: others, DEFINITIONS: definitions}
    return {name: _packed(value) for name, value in told.items() if value}


def of_reply(reply: Reply) -> dict[str, str]:
    """Return the attribute for a model's reply, as a JSON text by its name."""
    thinking = [{"type": "reasoning", "content": reply.thinking}] if reply.thinking else []
    parts = [*thinking, *_said(reply.text, reply.calls)]
    return {OUTPUT: _packed([{"role": "assistant", "parts": parts, "finish_reason": reply.ended}])}


def _message(message: ChatMessage) -> dict[str, Any]:
    if isinstance(message, AnswerMessage):
        response = {"type": "tool_call_response", "id": message.call, "response": message.text}
        return {"role": "tool", "parts": [response]}
    if isinstance(message, AssistantMessage):
        return {"role": "assistant", "parts": _said(message.text, message.calls)}
    return {"role": "user", "parts": [_text(message.text)]}


def _said(text: str, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    spoken = [_text(text)] if text else []
    return [
        *spoken,
        *(
            {
                "type": "tool_call",
                "id": each.id,
                "name": each.name,
                "arguments": _read(each.arguments),
            }
            for each in calls
        ),
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _read(arguments: str) -> Any:
    """Return the arguments of a call as data. If they are not JSON, return the text itself."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _packed(parts: Sequence[Any]) -> str:
    """Return a list as at most ``MOST_CONTENT`` characters of JSON.

    If the list is too long, its oldest entries are left out. If the newest entry alone is too long,
    the JSON is cut, and no longer valid.
    """
    texts = [canonical(each) for each in parts]
    while len(texts) > 1 and sum(map(len, texts)) + len(texts) > MOST_CONTENT:
        del texts[0]
    return f"[{','.join(texts)}]"[:MOST_CONTENT]
