"""Turns as texts, for the stored history of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from perdure.flows.core.json_values import canonical, read
from perdure.flows.core.outcomes import Command, Turn
from perdure.worker.errors import DamagedRun


def pack_turn(turn: Turn, run_id: str) -> str:
    """Return a turn as text for the run's history.

    The text is a short digest of the run's id and the turn, a space, and the turn's JSON.
    """
    command = turn.command
    text = canonical({"command": command and _packed(command), "observation": turn.observation})
    return f"{_short(run_id, text)} {text}"


def _packed(command: Command) -> dict[str, Any]:
    data = {"name": command.name, "args": dict(command.args), "extras": dict(command.extras)}
    return (
        {**data, "call": command.call, "part": command.part}
        if command.call or command.part
        else data
    )


def unpack_turns(run_id: str, entries: Iterable[str], are_checked: bool = False) -> list[Turn]:
    """Parse the turns of a run from its stored history.

    Args:
        are_checked: Whether this process has made the entries, or compared them with their digests.

    Raises:
        DamagedRun: An entry does not match its digest, or belongs to another run.
    """
    texts = []
    for entry in entries:
        digest, _, text = entry.partition(" ")
        if not are_checked and digest != _short(run_id, text):
            raise DamagedRun(
                f"run {run_id}: an entry of its history does not match its digest or belongs "
                "to another run; it is quarantined"
            )
        texts.append(text)
    try:
        return [
            Turn((command := data["command"]) and Command(**command), data["observation"])
            for data in _read_all(texts)
        ]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise DamagedRun(
            f"run {run_id}: an entry of its history is not a turn "
            f"({type(error).__name__}); it is quarantined"
        ) from error


def _read_all(texts: Sequence[str]) -> list[Any]:
    """Decode JSON texts together, in a third of the time that one by one takes."""
    values: list[Any] = read(f"[{','.join(texts)}]")
    return values if len(values) == len(texts) else [read(text) for text in texts]


def _short(run_id: str, text: str) -> str:
    return hashlib.sha256(f"{run_id} {text}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
