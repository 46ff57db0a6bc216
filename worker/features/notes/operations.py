"""Operations on notes, which runs keep for later runs. People read, write and delete them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.rounds.notes import NAMESPACE, Note, checked_key, checked_note
from perdure.worker.domain.token import Scope
from perdure.worker.errors import DamagedNote, InvalidInput
from perdure.worker.features.notes.namespace import NoteNamespace
from perdure.worker.features.notes.records import NoteRecords, wrong_type
from perdure.worker.operations import validation
from perdure.worker.operations.arguments import Check, anything
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session


def _check_namespace(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a namespace as it is stored, with all facts filled in."""
    if not isinstance(value, str) or not NAMESPACE.fullmatch(value):
        raise validation.wrong(
            name,
            "a stored namespace: letters, digits and _ . : @ + - %, at most 200, a letter or digit "
            "first",
            value,
        )


def _check_key(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a valid note key."""
    try:
        checked_key(value)
    except InvalidFlow as error:
        raise InvalidInput(str(error)) from error


#: The checks of arguments of notes. ``checked_note`` checks text and value.
NOTE_CHECKS: Mapping[str, Check] = {
    "after": validation.text,
    "key": _check_key,
    "namespace": _check_namespace,
    "prefix": validation.text,
    "text": anything,
    "value": anything,
    "words": validation.text,
}


@operation(
    Http("GET", "/notes", caps_limits=False),
    scope=Scope.ADMIN,
    owner=Owner.NONE,
    checks=NOTE_CHECKS,
)
def note_namespaces(
    session: Session, prefix: str = "", limit: int = 100, after: str | None = None
) -> list[NoteNamespace]:
    """Return the namespaces that have notes, sorted by name.

    These methods use the notes on the state server. They do not find the notes of a flow with
    another ``note_store``.

    Args:
        prefix: Only namespaces that begin with this text.
        limit: Maximum number of namespaces.
        after: The last namespace of the previous page. None means the first page.
    """
    counts = _records(session).namespaces(prefix, limit, after)
    return [NoteNamespace(each.namespace, each.notes, _moment(each.newest)) for each in counts]


@operation(
    Http("GET", "/notes/{namespace}", caps_limits=False),
    scope=Scope.ADMIN,
    owner=Owner.NONE,
    checks=NOTE_CHECKS,
)
def notes(session: Session, namespace: str, words: str = "", limit: int = 50) -> list[Note]:
    """Return notes of a namespace that match the words.

    Args:
        namespace: The stored name of the namespace, with the facts of the run filled in.
        words: Only notes that have at least one of these words. Notes with more of the words
            come first. Empty: all notes, the newest first.
        limit: Maximum number of notes.

    Raises:
        DamagedNote: A stored note cannot be read.
    """
    return _records(session).search(namespace, words, limit)


def _encode_note(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the request. A missing key is derived, and the value becomes JSON."""
    note = checked_note(arguments["text"], arguments["key"], arguments["value"])
    return {**arguments, "text": note.text, "key": note.key, "value": note.value}


@operation(
    Http("PUT", "/notes/{namespace}/{key}", is_repeatable=True),
    scope=Scope.ADMIN,
    owner=Owner.NONE,
    checks=NOTE_CHECKS,
    encode=_encode_note,
)
def put_note(
    session: Session, namespace: str, text: str, *, key: str | None = None, value: Any = None
) -> Note:
    """Keep a note for later runs.

    It replaces a note with the same key. If the namespace is full (``max_notes``), its oldest
    note is deleted.

    Args:
        text: The note's text, which searches read.
        key: The note's name. None derives it from the text, so equal texts are one note.
        value: JSON data or a pydantic model beside the text.

    Raises:
        UnstorableValue: The note is empty, too long (``max_note_bytes``), or not JSON.
        InvalidInput: The key or the namespace is not valid.
        DamagedNote: A key on the state server has a wrong type. Nothing was stored.
    """
    note = checked_note(text, key, value)
    word, detail, _ = _records(session).put(namespace, note)
    if word != "ok":
        raise DamagedNote(f"the note {note.key!r} was not kept: {wrong_type(detail)}")
    return replace(note, at=_moment(int(detail)))


@operation(
    Http("DELETE", "/notes/{namespace}{/key}", result="deleted"),
    scope=Scope.ADMIN,
    owner=Owner.NONE,
    checks=NOTE_CHECKS,
)
def forget_notes(session: Session, namespace: str, key: str | None = None) -> int:
    """Delete a note, or all notes of a namespace.

    Deleting a run deletes no notes. Notes that a run has read stay in its history.

    Args:
        key: The note to delete. None deletes all notes of the namespace.

    Returns:
        The number of deleted notes. 0 if there were none.

    Raises:
        DamagedNote: A key on the state server has a wrong type. Nothing was deleted.
    """
    word, detail = _records(session).forget(namespace, key)
    if word != "ok":
        raise DamagedNote(f"no note of {namespace!r} was deleted: {wrong_type(detail)}")
    return int(detail)


def _records(session: Session) -> NoteRecords:
    return NoteRecords(session.store, session.settings)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
