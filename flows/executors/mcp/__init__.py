"""Commands that are tools of MCP servers: programs beside the worker (stdio), or services (streamable HTTP).

Nothing in here imports the client library (``mcp``, of the extra of that name) or starts a server before a round needs a tool.
"""

from flows.executors.mcp.commands import mcp_commands

__all__ = ["mcp_commands"]
