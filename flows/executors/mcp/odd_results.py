"""Results of MCP tools that violate the protocol, as results that the client library accepts.

The client library (mcp 2.3) refuses a whole result for one invalid part. The call would count as
failed although the tool may have acted, and a model might repeat it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.flows.core.summaries import safe_text

if TYPE_CHECKING:
    from mcp_types import CallToolResult

#: Fields by which the result of a tool call is recognized.
_FIELDS = frozenset({"content", "structuredContent", "isError"})
#: Fields that say nothing about what a tool returned.
_ENVELOPE = frozenset({"_meta", "resultType"})
#: Maximum characters of each text in an invalid part. It may be the data of a picture.
PART_CHARACTERS = 2000


def repair_result(message: Any, version: str, cleaned: Callable[[Any], Any]) -> None:
    """Turn the invalid parts of a tool call's result into texts, and leave the valid parts alone.

    An invalid ``isError`` counts as the truth value of its JSON.

    Args:
        message: A message of the server. Other messages are left as they are.
        version: The version of the protocol.
        cleaned: Returns JSON data without secrets. A text is cut after that.
    """
    result = getattr(getattr(message, "message", None), "result", None)
    if not isinstance(result, dict) or _FIELDS.isdisjoint(result) or _is_valid(result, version):
        return
    content = result.pop("content", None)
    parts = content if isinstance(content, list) else [] if content is None else [content]
    blocks = [
        part if _fits(version, content=[part]) else _text_block(cleaned(part)) for part in parts
    ]
    for name, value in [*result.items()]:
        if not _fits(version, **{name: value}):
            del result[name]
            if value is not None:
                told = value if name == "structuredContent" else {name: value}
                blocks.append(_text_block(cleaned(told)))
            if name == "isError":
                result[name] = bool(value)
    result["content"] = blocks
    if not _is_valid(result, version):
        result["resultType"] = "complete"  # newer versions require it


def unknown_result(error: BaseException, cleaned: Callable[[Any], Any]) -> CallToolResult | None:
    """Return a tool call's result that has no field of the protocol. Its other fields are a text.

    Only the client library knows that such a message is the result of a tool call.

    Args:
        error: The client library's error for the call.
        cleaned: As for ``repair_result``.

    Returns:
        None if the error does not contain such a result, or if the result says that the call is not
        complete: by another ``resultType``, or by a task that the server works on.
    """
    from mcp_types import CallToolResult
    from pydantic import ValidationError

    faults = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    for fault in faults:
        result = fault["input"]
        if (
            fault["type"] == "missing"
            and fault["loc"][-2:] in (("content",), ("CallToolResult", "content"))
            and isinstance(result, dict)
            and _is_complete(result)
        ):
            fields = {name: each for name, each in result.items() if name not in _ENVELOPE}
            blocks = [_text_block(cleaned(fields))] if fields else []
            return CallToolResult.model_validate({"content": blocks})
    return None


def _is_complete(result: dict[str, Any]) -> bool:
    task = result.get("task")
    is_task = isinstance(task, dict) and "taskId" in task
    return result.get("resultType") in (None, "complete") and not is_task


def _fits(version: str, **fields: Any) -> bool:
    """Return whether fields are valid in a result that is valid without them."""
    return _is_valid({"content": [], "resultType": "complete", **fields}, version)


def _is_valid(result: dict[str, Any], version: str) -> bool:
    from mcp_types import CallToolResult
    from mcp_types.methods import validate_server_result
    from pydantic import ValidationError

    try:
        validate_server_result("tools/call", version, result)
        CallToolResult.model_validate(result, by_name=False)
    except ValidationError:
        return False
    except (KeyError, ValueError):  # the library does not know this version
        return True
    return True


def _text_block(part: Any) -> dict[str, str]:
    """Return a text with the content of an invalid part: its own text, else its JSON."""
    text = part.get("text") if isinstance(part, dict) else part
    if not isinstance(text, str):
        short = (
            {name: _cut(each) for name, each in part.items()} if isinstance(part, dict) else part
        )
        text = json.dumps(short, ensure_ascii=False)
    return {"type": "text", "text": text}


def _cut(value: Any) -> Any:
    return safe_text(value, PART_CHARACTERS) if isinstance(value, str) else value


async def accept_result(name: str, result: Any) -> None:
    """Accept every result. Schemas of results were removed from the list of tools anyway."""
