"""Conversion between a provider's response and its stored form, which later requests send back.

The stored form has reasoning, signatures and ids of the parts. The model library knows what each
provider requires, and leaves out parts that another provider cannot read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai import messages as theirs
from pydantic_ai.models import Model

from perdure.flows.controllers.model.chat import AssistantMessage, ToolCall
from perdure.flows.controllers.model.provider_clients import takes_reasoning

logger = logging.getLogger("perdure.flow")

#: Maximum bytes of a response that is kept. The message of a longer one consists of its text and
#: calls.
MOST_KEPT = 1024 * 1024
#: The fields of a response that are kept. The others (usage, times) are never sent.
_FIELDS = (
    "parts",
    "model_name",
    "provider_name",
    "provider_url",
    "provider_details",
    "finish_reason",
    "kind",
)
#: Providers to which the library can send reasoning only between tags. For Groq see
#: ``takes_reasoning``.
_TAKES_TAGS_ALONE = frozenset({"huggingface"})
#: Providers that accept reasoning only with its signature. The library puts other reasoning between
#: tags.
_TAKES_SIGNED_ALONE = frozenset({"anthropic", "bedrock"})
#: Attributes of a part, besides text and call, that a provider may want back.
_MARKS = ("signature", "id", "provider_details")


def kept_of(
    response: theirs.ModelResponse, calls: Sequence[ToolCall], secrets: Sequence[str]
) -> str:
    """Return a response's stored form as JSON text.

    Args:
        calls: The response's calls, with the ids under which their results are sent back.
        secrets: Texts that the result must not contain.

    Returns:
        An empty text if the response has only text and calls, is too long, or contains a secret.
    """
    parts = [
        part for part in response.parts if not isinstance(part, theirs.FilePart | theirs.SpeechPart)
    ]
    if not any(_says_more(part) for part in parts):
        return ""
    ids = iter(calls)
    parts = [
        replace(part, tool_call_id=next(ids).id) if isinstance(part, theirs.ToolCallPart) else part
        for part in parts
    ]
    [data] = theirs.ModelMessagesTypeAdapter.dump_python(
        [replace(response, parts=parts)], mode="json"
    )
    data = {name: data[name] for name in _FIELDS if data.get(name) is not None}
    if any(secret in data.get("provider_url", "") for secret in secrets):
        del data["provider_url"]
    data["parts"] = [
        {name: value for name, value in part.items() if value is not None} for part in data["parts"]
    ]
    text = (
        json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        .encode("utf-8", "replace")
        .decode()
    )
    if len(text.encode()) > MOST_KEPT or any(secret in text for secret in secrets):
        return ""
    return text


def response_of(message: AssistantMessage, model: Model) -> theirs.ModelResponse | None:
    """Restore a model's response from its stored form in a chat message.

    The response contains only the calls that the message has. Reasoning is left out if ``model``
    would read it as its own text: reasoning of another provider, or reasoning that can only be sent
    between tags.

    Returns:
        None if the message has no stored form, or if that cannot be read or lacks a call of the
            message.
    """
    if not message.kept:
        return None
    try:
        [response] = theirs.ModelMessagesTypeAdapter.validate_json(f"[{message.kept}]")
    except (ValidationError, ValueError) as error:
        logger.warning(
            "a stored reply of the model cannot be read (%s); sending its text and calls instead",
            type(error).__name__,
        )
        return None
    if not isinstance(response, theirs.ModelResponse):
        return None
    answered = {call.id: call for call in message.calls}
    parts: list[theirs.ModelResponsePart] = []
    for part in response.parts:
        if isinstance(part, theirs.ThinkingPart):
            parts += [] if _would_be_words(part, response, model) else [part]
        elif not isinstance(part, theirs.ToolCallPart):
            parts += [] if _is_blank(part) else [part]
        elif (call := answered.pop(part.tool_call_id, None)) is not None:
            parts.append(_as_called(part, call))
    return None if answered or not parts else replace(response, parts=parts)


def _says_more(part: Any) -> bool:
    if not isinstance(part, theirs.TextPart | theirs.ToolCallPart):
        return True
    return any(getattr(part, mark, None) for mark in _MARKS)


def _is_blank(part: theirs.ModelResponsePart) -> bool:
    """Return whether a part is only white space.

    Some models write such text before they think, and Anthropic rejects it in a request.
    """
    return (
        isinstance(part, theirs.TextPart)
        and not part.content.strip()
        and not any(getattr(part, mark, None) for mark in _MARKS)
    )


def _would_be_words(
    part: theirs.ThinkingPart, response: theirs.ModelResponse, model: Model
) -> bool:
    """Return whether reasoning must be left out of a request.

    It must if the library would put it between tags into the reply's text. There, the model would
    read the reasoning as its own words.

    Args:
        part: The reasoning.
        response: The response that has the reasoning.
        model: The model that gets the request.
    """
    if (
        part.provider_name or response.provider_name
    ) != model.system and not model.accepts_stateless_artifacts(response, part):
        return True
    if model.system in _TAKES_TAGS_ALONE:
        return True
    if model.system == "groq":
        return not takes_reasoning(model, response)
    if model.system in _TAKES_SIGNED_ALONE and not part.signature:
        return True
    if model.system == "bedrock" and not model.profile.get(
        "bedrock_send_back_thinking_parts", False
    ):
        return True
    # It was between tags in the content. A profile that wants it there again says so.
    return (
        part.id == "content"
        and model.profile.get("openai_chat_send_back_thinking_parts", "auto") == "auto"
    )


def _as_called(part: theirs.ToolCallPart, call: ToolCall) -> theirs.ToolCallPart:
    """Return a tool call for sending back to the provider, as the model wrote it.

    But providers reject arguments that are not a JSON object. Such arguments are replaced by those
    of ``call``.
    """
    return (
        replace(part, tool_name=call.name)
        if _is_object(part.args)
        else replace(part, tool_name=call.name, args=call.arguments)
    )


def _is_object(args: Any) -> bool:
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            return False
    return isinstance(args, Mapping)
