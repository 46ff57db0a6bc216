"""The notes of runs over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from perdure.flows.rounds.notes import Note
from perdure.worker.client.api import ClientApi
from perdure.worker.client.notes import check_key, check_listing, check_namespace, note_of
from perdure.worker.client.remote.connection import RemoteConnection
from perdure.worker.domain.note_namespace import NoteNamespace
from perdure.worker.operations import validation


class RemoteNotes(RemoteConnection, ClientApi):
    """Reads, writes and deletes notes."""

    def note_namespaces(
        self, prefix: str = "", limit: int = 100, after: str | None = None
    ) -> list[NoteNamespace]:
        check_listing(prefix, limit, after)
        found = self._ask("/notes", prefix=prefix or None, limit=limit, after=after)
        return [NoteNamespace.from_dict(each) for each in found]

    def notes(self, namespace: str, words: str = "", limit: int = 50) -> list[Note]:
        validation.text(words, "words")
        validation.limit(limit)
        found = self._ask(_path(namespace), words=words or None, limit=limit)
        return [Note.from_dict(each) for each in found]

    def put_note(
        self, namespace: str, text: str, *, key: str | None = None, value: Any = None
    ) -> Note:
        note = note_of(text, key, value)
        body = {"text": note.text, "value": note.value}
        return Note.from_dict(self._tell("PUT", _path(namespace, note.key), body, repeat=True))

    def forget_notes(self, namespace: str, key: str | None = None) -> int:
        if key is not None:
            check_key(key)
        path = _path(namespace) if key is None else _path(namespace, key)
        return int(self._tell("DELETE", path)["deleted"])


def _path(namespace: str, *key: str) -> str:
    check_namespace(namespace)
    return "/".join(("/notes", *(quote(part, safe="") for part in (namespace, *key))))
