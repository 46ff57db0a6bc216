"""Reading of an MCP server's list of tools, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.flows.core.summaries import safe_text
from perdure.flows.executors.mcp.results import Tool

if TYPE_CHECKING:
    from mcp import Client

#: Maximum number of pages read of a list of tools. A server could send pages for ever.
PAGES = 100
#: Maximum characters of a declaration's fault.
FAULT = 300


async def tools_of(client: Client) -> tuple[dict[str, Tool], Exception | None]:
    """Return an MCP server's current tools by name, and the fault of a later page or None.

    At most ``PAGES`` pages are read. After a page that cannot be read, no further page is read.

    Raises:
        Exception: The first page cannot be read.
    """
    from mcp import MCPError
    from pydantic import ValidationError

    tools: dict[str, Tool] = {}
    cursor = None
    for _ in range(PAGES):
        try:
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        except (MCPError, ValidationError) as error:
            if cursor is None:
                raise
            return tools, error
        for tool in page.tools:
            tools[tool.name] = Tool.of(tool)
        # Some servers end their list with an empty cursor, or repeat the last one.
        if not page.next_cursor or page.next_cursor == cursor:
            break
        cursor = page.next_cursor
    return tools, None


def drop_invalid_tools(message: Any, version: str) -> dict[str, str]:
    """Remove invalid declarations and all schemas of results from a server's list of tools.

    The client library would refuse the result of a call that took place if it does not fit the
    tool's own schema.

    An invalid declaration violates the protocol. The client library (mcp 2.3) rejects a whole list
    for one of them, so that the server could not be used at all.

    Args:
        message: A message of the server, which is changed in place. Messages of other kinds are not
            changed.
        version: The version of the protocol.

    Returns:
        The fault of each removed tool, by name. Empty if nothing was removed, as for a list that
            would be invalid even without tools.
    """
    result = getattr(getattr(message, "message", None), "result", None)
    if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
        return {}
    if "content" in result:
        return {}
    for tool in result["tools"]:
        if isinstance(tool, dict):
            tool.pop("outputSchema", None)
    if _fault_of(result, version) is None:
        return {}
    kept: list[Any] = []
    removed: dict[str, str] = {}
    for number, tool in enumerate(result["tools"]):
        fault = _fault_of({**result, "tools": [tool]}, version)
        if fault is None:
            kept.append(tool)
            continue
        name = tool.get("name") if isinstance(tool, dict) else None
        removed[safe_text(str(name or f"number {number + 1}"), FAULT)] = fault
    if _fault_of({**result, "tools": []}, version) is not None:
        return {}  # the list itself is at fault
    result["tools"] = kept
    return removed


def _fault_of(result: dict[str, Any], version: str) -> str | None:
    """Return the fault of a list of tools.

    Returns:
        None if the list is valid, or if the library does not know the version.
    """
    from mcp_types import ListToolsResult
    from mcp_types.methods import validate_server_result
    from pydantic import ValidationError

    try:
        validate_server_result("tools/list", version, result)
        ListToolsResult.model_validate(result, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"][-2:]))
        return safe_text(f"{place}: {first['msg']}", FAULT)
    except (KeyError, ValueError):  # the library does not know this version
        return None
    return None
