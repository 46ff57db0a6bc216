"""The commands ``remember``, ``recall`` and ``forget``, for a model's notes.

The flow chooses the namespace of the notes. The model cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from perdure.flows.commands.command import CommandSpec, spec_of
from perdure.flows.core.errors import InvalidFlow, UnstorableValue
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.notes import FOUND, Note

NoteTool = Literal["remember", "recall", "forget"]


def note_commands(namespace: str, names: Iterable[str]) -> tuple[CommandSpec, ...]:
    """Return the named commands for a namespace's notes. ``NoteTool`` has their names.

    The commands are idempotent. If a command is carried out again after its worker was lost, it
    changes nothing more.
    """

    def remember(text: str, context: RoundContext, key: str = "") -> Mapping[str, Any]:
        """Keep a fact for later conversations, beyond this one. Only what will still be useful.

        Args:
            text: One fact, in a sentence that can be understood by itself.
            key: A short name of the fact, such as diet. A note with the same key is replaced.
        """
        try:
            note = context.notes(namespace).put(text, key or None)
        except (UnstorableValue, InvalidFlow) as error:
            return {"error": f"it was not kept: {error}"}
        return {"kept": note.key}

    def recall(context: RoundContext, words: str = "") -> Any:
        """Look into the notes of earlier conversations.

        Args:
            words: Words to look for. Leave it empty for the newest notes.
        """
        found = context.notes(namespace).search(words, FOUND)
        return [observed(note) for note in found] or "no note has any of these words"

    def forget(key: str, context: RoundContext) -> Mapping[str, Any]:
        """Delete a note, because it is wrong, no longer true, or because the user asks for it.

        Args:
            key: The key of the note.
        """
        return {"forgotten": context.notes(namespace).forget(key)}

    functions: Mapping[str, Callable[..., Any]] = {
        "remember": remember,
        "recall": recall,
        "forget": forget,
    }
    return tuple(replace(spec_of(functions[name], name), idempotent=True) for name in names)


def observed(note: Note) -> dict[str, Any]:
    """Return a note as JSON data for a model. It has the date, but not the run."""
    value = {} if note.value is None else {"value": note.value}
    return {"key": note.key, "text": note.text, **value, "on": note.at.date().isoformat()}
