"""A flow file that declares MCP servers."""

from __future__ import annotations

from pathlib import Path

FLOW = """
flow: controller_executor
controller: scripted
subflows_config:
  Controller: {replies: []}
  Executor: {subflows_config: %s}
mcp_servers:
  time: {command: [%s], tools: [get_current_time]}
  docs:
    url: "https://example.org/mcp"
    headers: {Authorization: "Bearer env:DOCS"}
    tools: {search: {description: look, idempotent: true}}
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "remote.yaml"
    file.write_text(text)
    return file
