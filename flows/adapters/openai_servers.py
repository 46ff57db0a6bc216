"""MCP servers of OpenAI agents in workflows: tools are listed and called in steps."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from pydantic import TypeAdapter

from perdure.flows.adapters.approvals import AgentCall
from perdure.flows.adapters.openai_nested import around, inner_of
from perdure.flows.adapters.openai_results import is_mcp_result, listed_tools
from perdure.flows.core.json_values import canonical
from perdure.flows.workflows.steps import AsyncSteps

#: A function that calls ``body`` in a step of a tool. Its further arguments are the tool's name,
#: the call's arguments for people, and JSON data that distinguishes the step.
CallInStep = Callable[[Callable[[], Any], str, Mapping[str, Any], Any], Awaitable[Any]]

_tools = TypeAdapter(list[MCPTool])
#: The call of an MCP server's tool that is being carried out. None outside of such a call.
MCP_CALL: ContextVar[AgentCall | None] = ContextVar("mcp_call", default=None)
#: A lock for each MCP server of this process. A server has one connection.
_locks: WeakKeyDictionary[MCPServer, asyncio.Lock] = WeakKeyDictionary()


@asynccontextmanager
async def _connected(server: MCPServer) -> AsyncIterator[None]:
    async with _locks.setdefault(server, asyncio.Lock()):
        await server.connect()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            await server.cleanup()  # type: ignore[no-untyped-call]


def stepping_server(server: MCPServer, steps: AsyncSteps, call_in_step: CallInStep) -> MCPServer:
    """Return a copy of an MCP server for steps.

    The copy lists and calls the tools of the server in steps. Each step opens a new connection,
    because a different worker may carry out the step.

    Args:
        call_in_step: calls a tool in a step.
    """
    server = inner_of(server)
    own = copy.copy(server)

    async def list_tools(*args: Any, **named: Any) -> list[MCPTool]:
        async def body() -> list[Any]:
            async with _connected(server):
                found = await server.list_tools()
            listed: list[Any] = _tools.dump_python(found, mode="json")
            return listed

        name = "".join(each if each.isalnum() else "_" for each in server.name)[:80]
        told = await steps.step(
            body,
            name=f"{name}.tools",
            idempotent=True,
            shown={},
            compared={},
            summarize=listed_tools,
        )
        return _tools.validate_python(told)

    async def call_tool(name: str, args: dict[str, Any] | None, **named: Any) -> CallToolResult:
        async def body() -> Any:
            async with _connected(server):
                result = await server.call_tool(name, args, **named)
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)

        call = MCP_CALL.get()
        shown = args or {}
        compared = shown if call is None else call.compared(steps, name[:90], shown)
        told = await call_in_step(body, name, shown, compared)
        if isinstance(told, dict) and is_mcp_result(told):
            return CallToolResult.model_validate(told)
        text = told if isinstance(told, str) else canonical(told)  # a person's answer
        return CallToolResult(content=[TextContent(type="text", text=text)])

    own.list_tools = list_tools  # type: ignore[method-assign]
    own.call_tool = call_tool  # type: ignore[method-assign, assignment]
    return around(server, own)
