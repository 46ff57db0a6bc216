"""The MCP server: flows that are exposed to it as tools, and their runs as tasks, under ``/mcp``.

It needs the extra ``mcp``, which is imported with the first request. Requests share nothing but
the state server, so any server process can take the next one.
"""

from __future__ import annotations

from perdure.worker.web.mcp_server.route import mcp_router

__all__ = ["mcp_router"]
