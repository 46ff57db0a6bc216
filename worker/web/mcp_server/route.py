"""The HTTP route of the MCP server.

It authenticates the caller, and then calls the ``mcp`` package.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Response
from starlette.types import Message, Receive, Scope, Send

from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.mcp_server.request_state import REFUSED_KEY
from perdure.worker.web.problems import ProblemRoute
from perdure.worker.web.services import RouteServices

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


mcp_router = APIRouter(route_class=ProblemRoute, include_in_schema=False)


@mcp_router.post("/mcp")
def exchange_messages(runs: Runs, services: RouteServices) -> Response:
    """Return the response to one message of an MCP client.

    Raises:
        HTTPException: 501 if the extra ``mcp`` is not installed.
    """
    try:
        return McpExchange(_server(), services.most_bytes)
    except ModuleNotFoundError as error:
        raise HTTPException(
            501, f"MCP needs the extra 'mcp': pip install 'perdure[server,mcp]' ({error})"
        ) from error


@cache
def _server() -> Server[Any]:
    """Return the MCP server of this process. The first request creates it."""
    from perdure.worker.web.mcp_server.server import make_server

    return make_server()


class McpExchange(Response):
    """The response to one message of an MCP client, which the ``mcp`` package writes.

    Args:
        most: Maximum size of the request's body in bytes.
    """

    def __init__(self, server: Server[Any], most: int) -> None:
        super().__init__()
        self._server, self._most = server, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the ``mcp`` package read the request and send the response.

        But if the caller lacks a scope, the status is changed to 403, as MCP requires.
        """
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        async def send_with_status(message: Message) -> None:
            status = scope.get("state", {}).get(REFUSED_KEY)
            if message["type"] == "http.response.start" and status is not None:
                message = {**message, "status": status}
            await send(message)

        # One for each request: it has no state without sessions, and needs no start with the app.
        manager = StreamableHTTPSessionManager(
            self._server, stateless=True, max_request_body_size=self._most
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send_with_status)
