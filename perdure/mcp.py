"""Tools of MCP servers as commands. It needs the extra ``mcp``: ``pip install 'perdure[mcp]'``."""

from __future__ import annotations

from perdure.flows.executors.mcp import mcp_commands

__all__ = ["mcp_commands"]
