"""Results of models and tools of the OpenAI Agents SDK: types, errors, and texts for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

from agents import FunctionTool
from mcp.types import CallToolResult
from openai import APIConnectionError, APIStatusError
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from perdure.flows.core.errors import FatalError, PerdureError, RetryableError
from perdure.flows.core.json_values import canonical

#: HTTP statuses that mean "not now". All others below 500 mean "not this request".
LATER = frozenset({408, 409, 425, 429})


def result_type(tool: FunctionTool) -> TypeAdapter[Any] | None:
    """Return a ``TypeAdapter`` for a tool's annotated return type.

    Returns:
        None if the type is ``str`` or ``Any``, if there is no annotation, or if pydantic cannot
            read it.
    """
    try:
        hint = get_type_hints(tool.__wrapped__).get("return", Any)
        return None if hint in (Any, str) else TypeAdapter(hint)
    except (AttributeError, NameError, TypeError, PydanticUserError):
        return None


def fingerprint(context: Any) -> str | None:
    """Return the content of an agent's ``context`` as JSON.

    The texts before and after a call of a tool show whether the tool has changed the object.

    Returns:
        None if ``context`` is None, or if JSON cannot hold its content.
    """
    if context is None:
        return None
    for value in (context, getattr(context, "__dict__", None)):
        try:
            return canonical(to_jsonable_python(value))
        except (TypeError, ValueError, PerdureError):  # PydanticSerializationError is a ValueError
            continue
    return None


def is_mcp_result(told: Mapping[str, Any]) -> bool:
    """Return whether a step's result came from an MCP server.

    A server's result always has ``isError``, and ``content`` in the form of the protocol. Any other
    result came from a person, who gave it for a call in doubt.
    """
    if "isError" not in told:
        return False
    try:
        CallToolResult.model_validate(told)
    except ValidationError:
        return False
    return True


def listed_tools(told: Any) -> str:
    return ", ".join(tool["name"] for tool in told)


def said(told: Any) -> str:
    """Return a response's texts and tool calls as one text. It is for people who watch the run."""
    parts = []
    for item in told["output"]:
        if "arguments" in item:
            # A call of OpenAI's own tools may have arguments and no name (`tool_search_call`).
            args = item["arguments"]
            text = args if isinstance(args, str) else canonical(args)
            parts.append(f"{item.get('name') or item['type'].removesuffix('_call')} {text}")
        texts = [part.get("text", "") for part in item.get("content") or ()]
        parts += [text for text in texts if text]
    return "; ".join(parts)


def failed(error: APIConnectionError | APIStatusError) -> Exception:
    """Return the round's error for an error of a provider.

    Returns:
        A RetryableError that counts no attempt, if the provider is unreachable or its status is in
            ``LATER`` or at least 500. For other statuses, a FatalError.
    """
    if isinstance(error, APIConnectionError):
        return RetryableError(f"the model cannot be reached: {error}", counts=False)
    status = error.status_code
    text = f"the model answers {status}: {error.message}"
    if status not in LATER and status < 500:
        return FatalError(text)
    after = error.response.headers.get("retry-after", "")
    return RetryableError(text, float(after) if after.isdecimal() else None, counts=False)
