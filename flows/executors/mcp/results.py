"""What a tool answered, as an observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flows.errors import HoldfastError, UnstorableValue
from flows.summaries import safe_text
from flows.values import storable

if TYPE_CHECKING:
    from mcp_types import CallToolResult

#: Of a tool's own error, this much is told.
TOLD_CHARACTERS = 2000


class ToolFailed(HoldfastError):
    """The tool, or its server, answered with an error: the controller is told, it may know better."""


def observation_of(result: CallToolResult, what: str) -> Any:
    """The structured content, else the texts; what is neither is named under ``left_out``.

    Raises:
        ToolFailed: the tool says that it failed, or its result is nothing that could be kept.
    """
    texts, left_out = _parts(result.content)
    if result.is_error:
        raise ToolFailed(safe_text("\n".join(texts) or f"{what} failed, and does not say why", TOLD_CHARACTERS))
    found = "\n".join(texts) if result.structured_content is None else result.structured_content
    try:
        return storable({"result": found, "left_out": left_out} if left_out else found, f"the result of {what}")
    except UnstorableValue as error:  # the server's doing: no reason to end the run
        raise ToolFailed(str(error)) from error


def _parts(content: Any) -> tuple[list[str], list[str]]:
    """The texts, and the names of what is no text."""
    texts, left_out = [], []
    for part in content:
        if part.type == "text":
            texts.append(part.text)
        elif part.type == "resource_link":
            texts.append(f"{part.name}: {part.uri}")
        elif part.type == "resource" and hasattr(part.resource, "text"):
            texts.append(f"{part.resource.uri}:\n{part.resource.text}")
        elif part.type == "resource":
            left_out.append(f"{part.resource.uri} ({part.resource.mime_type or 'unknown type'}, {_size(part.resource.blob)})")
        else:
            left_out.append(f"{part.type} ({part.mime_type}, {_size(part.data)})")
    return texts, left_out


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4} bytes"
