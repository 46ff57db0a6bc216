"""Tools of MCP servers as commands of a flow."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from perdure.flows.commands.command import CommandSpec
from perdure.flows.core.errors import BadReply, FatalError, InvalidFlow
from perdure.flows.core.names import is_name
from perdure.flows.executors.mcp.config import CALL_SECONDS, START_SECONDS, ServerConfig, ToolConfig
from perdure.flows.executors.mcp.event_loop import background
from perdure.flows.executors.mcp.results import Tool
from perdure.flows.rounds.context import RoundContext

#: Explains that the client library is missing.
MISSING = "it needs perdure[mcp], which is not installed here (pip install 'perdure[mcp]')"


@dataclass(frozen=True)
class RemoteTool:
    """A tool of an MCP server. It is both the function and the arguments (``takes``) of a command.

    The first method that needs the server starts it or connects to it.

    Attributes:
        name: the name of the tool.
        server_name: the server's name within the flow.
        seconds: time limit of one call.
    """

    name: str
    server_name: str
    server: ServerConfig
    seconds: float

    wants_context = True

    @property
    def missing(self) -> str | None:
        """The reason why this machine cannot use MCP servers, as a sentence. None if it can."""
        return None if importlib.util.find_spec("mcp") else MISSING

    def check(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        """Validate arguments against the server's schema. Return them as one argument.

        The one argument is named ``arguments``, because a tool's arguments may have any names. If
        the known schema does not accept the arguments, the schema is read from the server again.

        Args:
            what: The command's name, for errors.

        Raises:
            BadReply: The server's schema does not accept the arguments.
            PerdureError: The schema cannot be read from the server (see ``told``).
        """
        try:
            self.told().check(args, what)
        except BadReply:
            # Not every server reports a changed schema.
            self._read_again().check(args, what)
        return {"arguments": dict(args)}

    def complete(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        """Validate arguments, and return them with the defaults of the server's schema filled in.

        Args:
            what: The command's name, for errors.

        Raises:
            BadReply: The server's schema does not accept the arguments.
            PerdureError: The schema cannot be read from the server (see ``told``).
        """
        self.check(args, what)
        properties = self.schema().get("properties")
        defaults = {
            name: each["default"]
            for name, each in (properties if isinstance(properties, dict) else {}).items()
            if isinstance(each, dict) and "default" in each
        }
        return {**defaults, **args}

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, as the MCP server declares it."""
        return dict(self.told().schema)

    def told(self) -> Tool:
        """Return the tool's declaration (description, schema) by its MCP server.

        Raises:
            FatalError: The client library is not installed here.
            PerdureError: The server cannot be used, or lacks the tool (see ``McpSession.tool``).
        """
        if self.missing:
            raise FatalError(f"command {self.server_name}.{self.name}: {self.missing}")
        return background.run(self._declaration())

    def __call__(self, arguments: Mapping[str, Any], context: RoundContext) -> Any:
        """Call the tool, and return its result.

        Raises:
            RoundStopped: The round was cancelled.
            PerdureError: The call failed (see ``McpSession.call``).
        """
        return background.run(self._call(arguments), context.cancelled)

    def _read_again(self) -> Tool:
        return background.run(self._declaration(is_old=True))

    async def _declaration(self, is_old: bool = False) -> Tool:
        session = await background.session(self.server_name, self.server)
        return await session.tool(self.name, is_old)

    async def _call(self, arguments: Mapping[str, Any]) -> Any:
        return await (await background.session(self.server_name, self.server)).call(
            self.name, arguments, self.seconds
        )


@dataclass(frozen=True)
class McpCommand(CommandSpec):
    """A command for a tool of an MCP server.

    A command without its own description has the server's description of the tool.
    """

    def schema(self) -> dict[str, Any]:
        """Return the command as a tool definition for models.

        The definition has the form of ``CommandSpec.schema``. Without a description of its own, the
        command has the server's description of the tool.
        """
        schema = super().schema()
        return (
            schema
            if self.description or not isinstance(self.takes, RemoteTool)
            else {**schema, "description": self.takes.told().description}
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
    """Return an MCP server's tools as commands, each named ``NAME.TOOL``.

    The server is not started before a round needs a tool.

    Args:
        name: The server's name within the flow.
        command, env: The program that the worker starts, and its environment variables.
            ``env:NAME`` refers to a variable of the worker.
        url, headers: Instead of a program, the URL of an HTTP service, and the headers of each
            request (``env:NAME`` or ``Bearer env:NAME``).
        tools: The tools that become commands. A mapping can set ``description``, ``idempotent``,
            ``timeout_seconds``, ``approval`` and ``in_doubt`` for each.
        timeout_seconds: Time limit of one call.
        start_seconds: Time limit for starting the server and listing its tools.

    Raises:
        InvalidFlow: The declaration is invalid or contradicts itself.
    """
    connection = {
        "command": None if command is None else list(command),
        "env": dict(env or {}),
        "url": url,
        "headers": dict(headers or {}),
    }
    chosen = dict(tools) if isinstance(tools, Mapping) else list(tools)
    try:
        server = ServerConfig(
            **connection,  # type: ignore[arg-type]
            tools=chosen,  # type: ignore[arg-type]
            timeout_seconds=timeout_seconds,
            start_seconds=start_seconds,
        )
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_input=False)
        )
        raise InvalidFlow(f"MCP server {name!r}: {faults}") from None
    return commands_of_server(name, server)


def commands_of_server(name: str, server: ServerConfig) -> list[CommandSpec]:
    """Return the chosen tools of a declared MCP server as commands. The server is not started.

    Args:
        name: The server's name within the flow.

    Raises:
        InvalidFlow: The name of a command would not be valid.
    """
    return [_command(name, server, tool, config) for tool, config in server.offered.items()]


def _command(name: str, server: ServerConfig, tool: str, config: ToolConfig) -> CommandSpec:
    full = f"{name}.{tool}"
    if not is_name(full):
        raise InvalidFlow(
            f"{full!r} cannot name a command; expected letters, digits, '_', '.' or '-', "
            "at most 100"
        )
    remote = RemoteTool(tool, name, server, config.timeout_seconds or server.timeout_seconds)
    return McpCommand(full, remote, idempotent=config.idempotent, takes=remote).configured(
        config.said
    )
