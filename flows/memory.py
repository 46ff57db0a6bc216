"""The memory of a ring: one node writes the last turn down, another offers the newest entries to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.context import RoundContext
from flows.nodes import node
from flows.summaries import safe_text
from flows.values import canonical

#: What is kept, so that the thousandth round writes no more than the tenth: entries, and characters of each value in them.
KEPT_ENTRIES = 20
KEPT_CHARACTERS = 1000
#: How many entries are offered at once.
RECALLED_ENTRIES = 5
_NOTED = ("command", "command_args", "observation", "human_feedback")


@node("memory_write")
def memory_write(given: Mapping[str, Any], context: RoundContext) -> Mapping[str, Any]:
    """Append the last turn (command, arguments, observation, a person's feedback) to the value ``memory``.

    The oldest entries give way to new ones, and a long value is cut and kept as text. It is the run's memory: no other run sees it.
    """
    entry = {name: _short(given[name]) for name in _NOTED if given.get(name) is not None}
    return {"memory": [*given.get("memory", []), {"step": context.step, **entry}][-KEPT_ENTRIES:]} if entry else {}


@node("memory_read")
def memory_read(given: Mapping[str, Any], context: RoundContext) -> Mapping[str, Any]:
    """Offer the newest entries of ``memory``, oldest first, as the value ``recalled``."""
    return {"recalled": list(given.get("memory", []))[-RECALLED_ENTRIES:]}


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else canonical(value)
    return value if len(text) <= KEPT_CHARACTERS else safe_text(text, KEPT_CHARACTERS)
