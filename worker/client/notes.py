"""The client part for notes, which runs keep for later runs.

People read, write and delete them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.rounds.notes import NAMESPACE, Note, checked_key, checked_note
from perdure.worker.client.api import ClientApi
from perdure.worker.client.connection import ClientConnection
from perdure.worker.domain.note_namespace import NoteNamespace
from perdure.worker.errors import DamagedNote, InvalidInput
from perdure.worker.operations import validation
from perdure.worker.store.notes import NoteRecords, wrong_type


class RunNoteReads(ClientConnection, ClientApi):
    """Reads, writes and deletes notes on the state server."""

    def note_namespaces(
        self, prefix: str = "", limit: int = 100, after: str | None = None
    ) -> list[NoteNamespace]:
        check_listing(prefix, limit, after)
        found = self._notes.namespaces(prefix, limit, after)
        return [NoteNamespace(each.namespace, each.notes, _moment(each.newest)) for each in found]

    def notes(self, namespace: str, words: str = "", limit: int = 50) -> list[Note]:
        check_namespace(namespace)
        validation.text(words, "words")
        validation.limit(limit)
        return self._notes.search(namespace, words, limit)

    def put_note(
        self, namespace: str, text: str, *, key: str | None = None, value: Any = None
    ) -> Note:
        check_namespace(namespace)
        note = note_of(text, key, value)
        word, detail, _ = self._notes.put(namespace, note)
        if word != "ok":
            raise DamagedNote(f"the note {note.key!r} was not kept: {wrong_type(detail)}")
        return replace(note, at=_moment(int(detail)))

    def forget_notes(self, namespace: str, key: str | None = None) -> int:
        check_namespace(namespace)
        if key is not None:
            check_key(key)
        word, detail = self._notes.forget(namespace, key)
        if word != "ok":
            raise DamagedNote(f"no note of {namespace!r} was deleted: {wrong_type(detail)}")
        return int(detail)

    @property
    def _notes(self) -> NoteRecords:
        return NoteRecords(self._store, self.settings)


def check_namespace(namespace: object) -> None:
    """Raise InvalidInput unless this is a valid stored namespace."""
    if not isinstance(namespace, str) or not NAMESPACE.fullmatch(namespace):
        raise validation.wrong(
            "namespace",
            "a stored namespace: letters, digits and _ . : @ + - %, at most 200, a letter or digit "
            "first",
            namespace,
        )


def check_listing(prefix: object, limit: object, after: object) -> None:
    """Raise InvalidInput unless a namespace listing's arguments are valid."""
    validation.text(prefix, "prefix")
    validation.limit(limit)
    validation.optional_texts(after=after)


def check_key(key: object) -> None:
    """Raise InvalidInput unless this is a valid note key."""
    try:
        checked_key(key)
    except InvalidFlow as error:
        raise InvalidInput(str(error)) from error


def note_of(text: object, key: object, value: object) -> Note:
    """Return a note of these parts, without its time.

    Raises:
        InvalidInput: the key is not valid.
        UnstorableValue: the text is empty, or the value is not JSON.
    """
    if key is not None:
        check_key(key)
    return checked_note(text, key, value)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
