"""What a model without tools is told: its commands, and the form of its replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flows.values import canonical

FORM = """\
Reply with one JSON object and nothing else:
{"thought": "...", "reasoning": "...", "plan": ["..."], "criticism": "...", "speak": "...", "command": "NAME", "command_args": {...}}
Only command and command_args are required. What the command came to is told to you as an observation.

The commands (name, what it does, JSON schema of its arguments):"""


def instructions(commands: Sequence[Mapping[str, Any]]) -> str:
    """The end of the system prompt."""
    lines = [f"- {each['name']}: {each.get('description') or ''} {canonical(each['parameters'])}" for each in commands]
    return "\n".join([FORM, *lines])
