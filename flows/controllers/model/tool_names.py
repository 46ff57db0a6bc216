"""Names of commands as names of tools, in which providers allow fewer characters than flows do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
#: OpenAI's limit, the lowest of all providers.
LONGEST = 64


class ToolNames:
    """A mapping between command names and tool names.

    Args:
        commands: The names of the commands, in the order in which they are offered. If two would
            have the same tool name, the later one gets a number at its end.
    """

    def __init__(self, commands: Iterable[str]) -> None:
        self._tools: dict[str, str] = {}
        self._commands: dict[str, str] = {}
        for command in commands:
            tool, number = _legal(command), 1
            while tool in self._commands:
                number += 1
                tool = f"{_legal(command)[: LONGEST - len(str(number)) - 1]}_{number}"
            self._tools[command], self._commands[tool] = tool, command

    @property
    def tools(self) -> Collection[str]:
        """The names of all tools that are offered."""
        return self._commands.keys()

    def tool(self, command: str) -> str:
        """Return a command's tool name. The command need not be offered now."""
        return self._tools.get(command) or _legal(command)

    def command(self, tool: str) -> str:
        """Return the command of a tool name. A name that no tool has is returned unchanged."""
        return self._commands.get(tool, tool)


def _legal(name: str) -> str:
    return _ILLEGAL.sub("_", name)[:LONGEST] or "_"
