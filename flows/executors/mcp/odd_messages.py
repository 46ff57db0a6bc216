"""Repair of responses that violate JSON-RPC, from MCP servers over stdio.

The client library (mcp 2.3) drops such a line, so that its request would never get a response. A
line is repaired if its meaning is clear.
"""

from __future__ import annotations

from typing import Any

from perdure.flows.core.json_values import canonical

#: The error code if the server sent no code, or a code that is not a number.
NO_CODE = 0


def understood(message: Any) -> Any:
    """Return a server's message. If it is a response that violates JSON-RPC, repair it.

    The error of a response may be a text, or have no code, or a text as its code. The version may
    be missing. Other messages, and lines that are not responses, are returned unchanged.

    Args:
        message: the client library's object: a message, or a ValidationError for an invalid line.
    """
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse
    from pydantic import ValidationError

    if not isinstance(message, ValidationError):
        return message
    line = _line_of(message)
    request = line.get("id")
    if isinstance(request, bool) or not isinstance(request, int | str) or "method" in line:
        return message
    if line.get("error") is not None:
        fault = line["error"]
        data = fault.get("data") if isinstance(fault, dict) and "message" in fault else None
        error = ErrorData(code=_code_of(fault), message=_text_of(fault), data=data)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error))
    if isinstance(line.get("result"), dict):
        answer = JSONRPCResponse(jsonrpc="2.0", id=request, result=line["result"])
        return SessionMessage(answer)
    return message


def error_without_request(message: Any) -> Exception | None:
    """Return the error of a message that does not say which request failed. None for others.

    A server sends it if it could not read the id of a request.
    """
    from mcp import MCPError
    from mcp_types import JSONRPCError

    answer = getattr(message, "message", None)
    if not isinstance(answer, JSONRPCError) or answer.id is not None:
        return None
    return MCPError.from_jsonrpc_error(answer)


def _line_of(error: Any) -> dict[str, Any]:
    """Return the JSON object that the client library rejected.

    The result is empty if the error does not contain it.
    """
    for fault in error.errors(include_url=False):
        # A message that lacks a field of one kind of message is shown as a whole.
        if fault["type"] == "missing" and len(fault["loc"]) == 2:
            line = fault["input"]
            return line if isinstance(line, dict) else {}
    return {}


def _code_of(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else NO_CODE


def _text_of(error: Any) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        code = error.get("code")
        return f"{error['message']} ({code})" if isinstance(code, str) else str(error["message"])
    return canonical(error)
