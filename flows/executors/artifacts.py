"""read_artifact: the whole of a result that was too long for the history, in parts."""

from __future__ import annotations

from typing import Any

from flows.commands import command
from flows.context import RoundContext

#: Characters that one reading returns: with what JSON adds, still less than a result may have (``flows.results.MOST``).
PART = 24_000


@command(name="read_artifact", idempotent=True)
def read_artifact(context: RoundContext, name: str, offset: int = 0) -> dict[str, Any]:
    """Read the whole of a result that was cut, by the name of its artifact, from the character `offset` on; long ones in parts."""
    try:
        text = context.artifact(name)
    except KeyError as error:
        raise ValueError(f"this run has no artifact named {name!r}; a result that was cut names its own") from error
    begin = min(max(0, offset), len(text))
    end = begin + PART
    told: dict[str, Any] = {"artifact": name, "text": text[begin:end], "characters": len(text)}
    return told if end >= len(text) else {**told, "next_offset": end}
