"""Tools of MCP servers as commands of a flow."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from flows.commands import CommandSpec
from flows.context import RoundContext
from flows.definition import is_name
from flows.errors import FatalError, InvalidFlow
from flows.executors.mcp.background import background
from flows.executors.mcp.declaration import CALL_SECONDS, START_SECONDS, ServerConfig, ToolConfig
from flows.executors.mcp.tool import Tool

#: What is said where the client library is not there.
MISSING = "it needs holdfast[mcp], which is not installed here (pip install 'holdfast[mcp]')"


@dataclass(frozen=True)
class RemoteTool:
    """A tool of a server, which is started (or connected to) by the first who asks for anything here. It is what the command takes."""

    name: str
    server_name: str
    server: ServerConfig
    seconds: float

    wants_context = True

    @property
    def missing(self) -> str | None:
        """A sentence if this machine lacks what MCP servers are spoken to with, else None."""
        return None if importlib.util.find_spec("mcp") else MISSING

    def check(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        """The arguments as one, since they may have any names; raises BadReply as the server's schema has it."""
        self.told().check(args, what)
        return {"arguments": dict(args)}

    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments, as the server tells it."""
        return dict(self.told().schema)

    def told(self) -> Tool:
        """What the server says of it; raises as ``Session.tool``."""
        if self.missing:
            raise FatalError(f"command {self.server_name}.{self.name}: {self.missing}")
        return background.run(self._told())

    def __call__(self, arguments: Mapping[str, Any], context: RoundContext) -> Any:
        """Call it; raises as ``Session.call``."""
        return background.run(self._called(arguments), context.cancelled)

    async def _told(self) -> Tool:
        return await (await background.session(self.server_name, self.server)).tool(self.name)

    async def _called(self, arguments: Mapping[str, Any]) -> Any:
        return await (await background.session(self.server_name, self.server)).call(self.name, arguments, self.seconds)


@dataclass(frozen=True)
class McpCommand(CommandSpec):
    """A command that is a tool of an MCP server; without a description of its own it has the server's."""

    def schema(self) -> dict[str, Any]:
        """As ``CommandSpec.schema``."""
        told = super().schema()
        return (
            told if self.description or not isinstance(self.takes, RemoteTool) else {**told, "description": self.takes.told().description}
        )


def mcp_commands(
    name: str,
    *,
    command: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    tools: Sequence[str] | Mapping[str, Mapping[str, Any] | ToolConfig],
    timeout_seconds: float = CALL_SECONDS,
    start_seconds: float = START_SECONDS,
) -> list[CommandSpec]:
    """Tools of an MCP server as commands: ``NAME.TOOL`` each. Nothing is started before a round needs one.

    Args:
        name: of the server, within the flow.
        command, env: the program that is started beside the worker, and its variables (``env:NAME`` refers to one of the worker's).
        url, headers: or where the service is, and what is sent with each request (``env:NAME``, ``Bearer env:NAME``).
        tools: those that become commands; as a mapping, with ``description``, ``idempotent``, ``timeout_seconds``, ``approval`` and
            ``in_doubt`` of each.
        timeout_seconds: of one call. start_seconds: until the server has told its tools.

    Raises:
        InvalidFlow: the declaration contradicts itself.
    """
    given = {"command": None if command is None else list(command), "env": dict(env or {}), "url": url, "headers": dict(headers or {})}
    chosen = dict(tools) if isinstance(tools, Mapping) else list(tools)
    try:
        server = ServerConfig(**given, tools=chosen, timeout_seconds=timeout_seconds, start_seconds=start_seconds)  # type: ignore[arg-type]
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_input=False))
        raise InvalidFlow(f"MCP server {name!r}: {faults}") from None
    return commands_of_server(name, server)


def commands_of_server(name: str, server: ServerConfig) -> list[CommandSpec]:
    """The commands that a declared server gives; raises InvalidFlow for a name that cannot be a command's."""
    return [_command(name, server, tool, config) for tool, config in server.offered.items()]


def _command(name: str, server: ServerConfig, tool: str, config: ToolConfig) -> CommandSpec:
    full = f"{name}.{tool}"
    if not is_name(full):
        raise InvalidFlow(f"{full!r} cannot name a command; expected letters, digits, '_', '.' or '-', at most 100")
    remote = RemoteTool(tool, name, server, config.timeout_seconds or server.timeout_seconds)
    return McpCommand(full, remote, idempotent=config.idempotent, takes=remote).configured(config.said)
