"""Routes of notes: what runs keep for later runs. They need the scope admin.

A namespace belongs to a flow, and not to a caller.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import Field

from perdure.worker.features.notes.namespace import NoteNamespace
from perdure.worker.web.api.requests import Asked, Known, ResponseBody
from perdure.worker.web.api.routes import BODY_PROBLEMS, problems, resource_router
from perdure.worker.web.auth.permissions import MAX_PAGE_SIZE, Runs
from perdure.worker.web.json_body import Json

notes_router = resource_router("notes")

Namespace = Annotated[
    str,
    Path(description="The namespace, with the facts of the runs filled in.", examples=["user:ada"]),
]
NoteKey = Annotated[str, Path(description="The note's key.", examples=["diet"])]
Limit = Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)]
PROBLEMS = ("invalid-request", "invalid-input", "damaged-note")


class StoredNote(ResponseBody):
    """A note that a run, or a client, has kept for later runs."""

    key: str
    text: str
    value: Any = None
    """JSON data beside the text."""
    at: datetime
    """When it was written."""
    run_id: str | None = None
    """The run that wrote it. null: a client did."""


class DeletedNotes(ResponseBody):
    """The result of a deletion of notes."""

    deleted: int


class NoteListing(Known):
    """Which namespaces to list."""

    prefix: str = ""
    """Only those that begin with this text."""
    limit: Limit = 100
    """The most namespaces."""
    after: str | None = None
    """The last namespace of the page before."""


class NoteSearch(Known):
    """Which notes of a namespace to list."""

    words: str = ""
    """Only those with one of these words, those with most of them first."""
    limit: Limit = 50
    """The most notes."""


class NoteToPut(Asked):
    """A note."""

    text: str
    value: Any = None
    """JSON data beside the text."""


@notes_router.get(
    "/notes",
    operation_id="list_note_namespaces",
    response_model=list[NoteNamespace],
    response_description="The namespaces, in the order of their names.",
    responses=problems(*PROBLEMS),
)
def list_note_namespaces(place: Annotated[NoteListing, Query()], runs: Runs) -> Response:
    """List the namespaces that have notes."""
    found = runs.note_namespaces(place.prefix, place.limit, place.after)
    return Json([each.to_dict() for each in found])


@notes_router.get(
    "/notes/{namespace}",
    operation_id="list_notes",
    response_model=list[StoredNote],
    response_description="The notes: the best first, or without words the newest first.",
    responses=problems(*PROBLEMS),
)
def list_notes(
    namespace: Namespace, search: Annotated[NoteSearch, Query()], runs: Runs
) -> Response:
    """List the notes of a namespace."""
    return Json([note.to_dict() for note in runs.notes(namespace, search.words, search.limit)])


@notes_router.put(
    "/notes/{namespace}/{key}",
    operation_id="put_note",
    response_model=StoredNote,
    responses=problems(*BODY_PROBLEMS, *PROBLEMS, "unstorable-value", "server-full"),
)
def put_note(namespace: Namespace, key: NoteKey, body: NoteToPut, runs: Runs) -> Response:
    """Keep a note for later runs, in place of one with the same key."""
    return Json(runs.put_note(namespace, body.text, key=key, value=body.value).to_dict())


@notes_router.delete(
    "/notes/{namespace}",
    operation_id="delete_notes",
    response_model=DeletedNotes,
    responses=problems(*PROBLEMS),
)
def delete_notes(namespace: Namespace, runs: Runs) -> Response:
    """Delete all notes of a namespace."""
    return Json({"deleted": runs.forget_notes(namespace)})


@notes_router.delete(
    "/notes/{namespace}/{key}",
    operation_id="delete_note",
    response_model=DeletedNotes,
    responses=problems(*PROBLEMS),
)
def delete_note(namespace: Namespace, key: NoteKey, runs: Runs) -> Response:
    """Delete one note of a namespace."""
    return Json({"deleted": runs.forget_notes(namespace, key)})
