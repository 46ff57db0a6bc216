"""The names of commands as tools: providers take fewer letters than flows do."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
#: OpenAI's limit, the lowest of all.
LONGEST = 64


class ToolNames:
    """Command names to tool names and back.

    Args:
        commands: the names in the order in which they are offered; of two that would be one tool, the later gets a number.
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

    def tool(self, command: str) -> str:
        """The tool's name of a command, also of one that is not offered (any more)."""
        return self._tools.get(command) or _legal(command)

    def command(self, tool: str) -> str:
        """The command's name of a tool; a name that is no tool's stays as it is."""
        return self._commands.get(tool, tool)


def _legal(name: str) -> str:
    return _ILLEGAL.sub("_", name)[:LONGEST] or "_"
