"""The MCP server and its methods: list the tools, call a tool, and those of tasks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    ListToolsResult,
    PaginatedRequestParams,
)
from starlette.concurrency import run_in_threadpool

from perdure.flows.core.errors import PerdureError
from perdure.worker.errors import Forbidden, UnknownFlow
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.exposed_flows import exposed_flows
from perdure.worker.web.mcp_server import tasks
from perdure.worker.web.mcp_server.request_state import REFUSED_KEY
from perdure.worker.web.mcp_server.results import refusal
from perdure.worker.web.mcp_server.tool_calls import ToolCalls
from perdure.worker.web.mcp_server.tools import RUN_TOOLS, flow_tool, tool_names
from perdure.worker.web.problems import shown_text
from perdure.worker.web.services import services_of

logger = logging.getLogger("perdure.web")

Context = ServerRequestContext[Any, Any]
P = TypeVar("P")
INSTRUCTIONS = (
    "Each tool but status, answer and cancel starts a run, which may take long and goes on by "
    "itself. If a result says that the run still works, call status with its id. If a run waits "
    "for a person, ask the person, and pass the answer on with the tool answer."
)


def make_server() -> Server[Any]:
    """Return a new MCP server.

    For each request, it uses a client with the rights of the caller. The HTTP route has
    authenticated the caller before.
    """

    async def list_tools(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        runs = runs_of(context)
        flows = await run_in_threadpool(exposed_flows, runs, "mcp")
        by_tool = sorted(tool_names(flows).items())
        made = [flow_tool(name, flows[flow]) for name, flow in by_tool]
        # The list depends on the caller and on the live workers: it is not kept for others.
        return ListToolsResult(tools=[*made, *RUN_TOOLS], ttl_ms=0, cache_scope="private")

    async def call_tool(context: Context, params: CallToolRequestParams) -> Any:
        try:
            assert context.request is not None
            calls = ToolCalls(services_of(context.request).hub)
            return await calls.call(context, runs_of(context), params)
        except (Forbidden, UnknownFlow):
            raise
        except PerdureError as error:
            # As a result and not as an error of the protocol, so that a model reads it.
            return refusal(error, runs_of(context).caller)

    server: Server[Any] = Server(
        "perdure",
        version=version("perdure"),
        instructions=INSTRUCTIONS,
        # No tool's schema asks for request headers, so calls need not list the tools.
        get_tool_input_schema=lambda name: None,
        on_list_tools=_guarded(list_tools),
        on_call_tool=_guarded(call_tool),
    )
    server.extensions[tasks.EXTENSION] = {}
    for method, params_type, handler in tasks.METHODS:
        server.add_request_handler(method, params_type, _guarded(_with_runs(handler)))
    return server


def runs_of(context: Context) -> AuthorizedClient:
    """Return the client with the rights of an MCP request's caller."""
    assert context.request is not None
    runs = context.request.state.authorized_client
    assert isinstance(runs, AuthorizedClient)
    return runs


def _with_runs(
    handle: Callable[[Context, AuthorizedClient, Any], Awaitable[Any]],
) -> Callable[[Context, Any], Awaitable[Any]]:
    async def handle_request(context: Context, params: Any) -> Any:
        return await handle(context, runs_of(context), params)

    return handle_request


def _guarded(handle: Callable[[Context, P], Awaitable[Any]]) -> Callable[[Context, P], Any]:
    """Wrap an MCP handler so that each of its errors becomes an MCPError.

    An error that is not Perdure's is logged, and the MCPError does not contain its text.
    """

    async def handle_or_fail(context: Context, params: P) -> Any:
        try:
            return await handle(context, params)
        except MCPError:
            raise
        except Forbidden as error:
            assert context.request is not None
            setattr(context.request.state, REFUSED_KEY, error.http_status)
            raise MCPError(INVALID_PARAMS, str(error), {"code": error.code}) from error
        except PerdureError as error:
            code = INTERNAL_ERROR if error.http_status >= 500 else INVALID_PARAMS
            text = shown_text(error, runs_of(context).caller)
            raise MCPError(code, text, {"code": error.code}) from error
        except Exception:
            logger.exception("%s of an MCP client failed", context.method)
            raise MCPError(INTERNAL_ERROR, "unexpected error: see the server's log") from None

    return handle_or_fail
