"""The MCP server under ``/mcp``. Flows that are exposed to it are tools, and their runs are tasks.

It needs the extra ``mcp``, whose package is imported at the first request. Requests share only the
state server, so any server process can serve the next request of a client.
"""

from __future__ import annotations

from perdure.worker.web.mcp_server.route import mcp_router

__all__ = ["mcp_router"]
