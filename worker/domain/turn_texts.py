"""Turns as texts: the entries of a run's stored history."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from perdure.flows.core.json_values import canonical, read
from perdure.flows.core.outcomes import Command, Turn
from perdure.worker.errors import DamagedRun


def pack_turn(turn: Turn, run_id: str) -> str:
    """Return a turn as the text of an entry of the run's history.

    The text is a short digest, a space, and the turn's JSON. The digest is that of the run's id and
    the JSON.
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
    """Return the turns in entries of a run's stored history.

    Args:
        run_id: The id of the run that the history belongs to.
        entries: Texts of ``pack_turn``.
        are_checked: Whether this process made the entries, or checked their digests before. If
            True, the digests are not checked.

    Raises:
        DamagedRun: An entry does not match its digest, belongs to another run, or is not a turn.
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
    """Return the values of JSON texts.

    All texts are decoded as one list, in a third of the time of one call for each text.
    """
    values: list[Any] = read(f"[{','.join(texts)}]")
    return values if len(values) == len(texts) else [read(text) for text in texts]


def _short(run_id: str, text: str) -> str:
    return hashlib.sha256(f"{run_id} {text}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
