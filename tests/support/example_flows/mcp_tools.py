"""A flow whose commands are tools of real MCP servers, with a script for a controller."""

from __future__ import annotations

from pydantic import BaseModel

from perdure import Command, ControllerExecutorFlow, Finish, RoundContext, register
from perdure.flows.executors.mcp import mcp_commands
from tests.support.mcp_servers import GIT, TIME


class Where(BaseModel):
    repository: str


@register("remote")
class Remote(ControllerExecutorFlow):
    """Asks for the time, for that of nowhere, and for the log of a repository."""

    Inputs = Where
    reads_errors = True  # the script stands for a model
    commands = (
        *mcp_commands("time", command=TIME, tools=["get_current_time"]),
        *mcp_commands("git", command=GIT, tools={"git_log": {"idempotent": True}}),
    )

    def decide(self, context: RoundContext) -> Command | Finish:
        script = (
            Command("time.get_current_time", {"timezone": "UTC"}),
            Command("time.get_current_time", {"timezone": "Nowhere"}),
            Command("git.git_log", {"repo_path": context.inputs["repository"]}),
            Finish("seen"),
        )
        return script[len(context.history)]
