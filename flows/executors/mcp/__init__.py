"""Commands that are tools of MCP servers.

A server is a program that a worker starts (stdio), or an HTTP service. No module in this package
imports the client library (``mcp``, from the extra ``mcp``) or starts a server before a round needs
a tool.
"""

from perdure.flows.executors.mcp.commands import mcp_commands

__all__ = ["mcp_commands"]
