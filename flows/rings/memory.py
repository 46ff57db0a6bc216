"""The memory of a ring: one node records the last turn, one offers the newest entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import node
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.context import RoundContext

#: Limits of the memory: entries, and characters of each value. They keep late rounds as small as
#: early ones.
KEPT_ENTRIES = 20
KEPT_CHARACTERS = 1000
#: Entries that ``memory_read`` offers.
RECALLED_ENTRIES = 5
_RECORDED_VALUES = ("command", "command_args", "observation", "human_feedback")


@node("memory_write")
def memory_write(state: Mapping[str, Any], context: RoundContext) -> Mapping[str, Any]:
    """Append the last turn to the value ``memory``.

    An entry has the command, its arguments, observation and feedback. New entries replace the
    oldest ones. A long value is cut and kept as text. The memory belongs to the run, and no other
    run sees it.
    """
    entry = {name: _short(state[name]) for name in _RECORDED_VALUES if state.get(name) is not None}
    return (
        {"memory": [*state.get("memory", []), {"step": context.step, **entry}][-KEPT_ENTRIES:]}
        if entry
        else {}
    )


@node("memory_read")
def memory_read(state: Mapping[str, Any], context: RoundContext) -> Mapping[str, Any]:
    """Return the five newest entries of ``memory`` as the value ``recalled``, oldest first."""
    return {"recalled": list(state.get("memory", []))[-RECALLED_ENTRIES:]}


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else canonical(value)
    return value if len(text) <= KEPT_CHARACTERS else safe_text(text, KEPT_CHARACTERS)
