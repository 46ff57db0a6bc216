"""The HTTP route of the MCP server: it authenticates the caller and hands the request over."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Request, Response
from starlette.types import Message, Receive, Scope, Send

from perdure.worker.client import Client
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.json_body import most_bytes
from perdure.worker.web.problems import ProblemRoute

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

#: Key in scope["state"] of the HTTP status with which a request was refused.
REFUSED_KEY = "perdure_refused"


def mcp_router(client: Client, hub: EventHub) -> APIRouter:
    """Return the router of ``/mcp``. An app must include it with ``bound``."""
    router = APIRouter(route_class=ProblemRoute)
    server = _LazyServer(hub)
    most = most_bytes(client.settings)

    @router.post("/mcp", include_in_schema=False)
    def exchange_messages(runs: Runs, request: Request) -> Response:
        """Take a message of an MCP client, and answer it."""
        try:
            return McpExchange(server.made, most)
        except ModuleNotFoundError as error:
            raise HTTPException(
                501, f"MCP needs the extra 'mcp': pip install 'perdure[server,mcp]' ({error})"
            ) from error

    return router


class _LazyServer:
    """The MCP server, made with the first request."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub

    @cached_property
    def made(self) -> Server[Any]:
        from perdure.worker.web.mcp_server.server import make_server

        return make_server(self._hub)


class McpExchange(Response):
    """The response to one message of an MCP client. The ``mcp`` package writes it."""

    def __init__(self, server: Server[Any], most: int) -> None:
        super().__init__()
        self._server, self._most = server, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the ``mcp`` package, which reads the request and responds.

        If the caller lacks a scope, the status is 403, as MCP asks for.
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
