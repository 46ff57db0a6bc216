"""A flow whose commands are tools of real MCP servers, with a script for a controller."""

from __future__ import annotations

from pathlib import Path

from flows import Command, ControllerExecutorFlow, Finish, ScriptedController, register
from flows.executors.mcp import mcp_commands
from tests.support.mcp_servers import GIT, TIME

ROOT = Path(__file__).parents[2]


@register("remote")
class Remote(ControllerExecutorFlow):
    controller = ScriptedController(
        [
            Command("time.get_current_time", {"timezone": "UTC"}),
            Command("time.get_current_time", {"timezone": "Nowhere"}),
            Command("git.git_log", {"repo_path": str(ROOT), "max_count": 1}),
            Finish("seen"),
        ]
    )
    commands = (
        *mcp_commands("time", command=TIME, tools=["get_current_time"]),
        *mcp_commands("git", command=GIT, tools={"git_log": {"idempotent": True}}),
    )
