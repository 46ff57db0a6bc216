"""Operations on the artifacts and files of a run."""

from __future__ import annotations

from typing import Any

from perdure.flows.core.files import File, FileReference
from perdure.worker.domain.token import Scope
from perdure.worker.errors import ArtifactNotFound
from perdure.worker.operations.operation import RUN_PROBLEMS, Http, Owner, operation
from perdure.worker.operations.session import Session


@operation(
    Http("GET", "/runs/{run_id}/artifacts", route="list_artifacts", problems=RUN_PROBLEMS),
    scope=Scope.READ,
    owner=Owner.RUN,
)
def artifacts(session: Session, run_id: str) -> dict[str, int]:
    """Return the run's artifact names and sizes (bytes).

    Raises:
        RunNotFound: No run has this id.
    """
    session.record(run_id)
    return session.store.reads.artifacts(run_id)


@operation(Http("GET", "/runs/{run_id}/artifacts/{name}"), scope=Scope.READ, owner=Owner.RUN)
def artifact(session: Session, run_id: str, name: str) -> str:
    """Return the text of an artifact.

    Raises:
        RunNotFound: No run has this id.
        ArtifactNotFound: The run has no artifact of this name. The message lists its artifacts.
    """
    session.record(run_id)
    text = session.store.reads.artifact(run_id, name)
    if text is None:
        names = ", ".join(session.store.reads.artifacts(run_id))
        raise ArtifactNotFound(
            f"run {run_id} has no artifact {name!r}; "
            f"{f'it has {names}' if names else 'it has none'}"
        )
    return text


def _decode_files(data: Any) -> list[FileReference]:
    return [FileReference(each["file"], each["media_type"], each["bytes"]) for each in data]


@operation(
    Http("GET", "/runs/{run_id}/files"),
    scope=Scope.READ,
    owner=Owner.RUN,
    decode=_decode_files,
)
def files(session: Session, run_id: str) -> list[FileReference]:
    """Return references to the run's files.

    A reference has the file's name, media type and size. The files were submitted with the run
    or attached by its rounds.

    Raises:
        RunNotFound: No run has this id.
    """
    session.record(run_id)
    return session.store.reads.files(run_id)


@operation(Http("GET", "/runs/{run_id}/files/{name}"), scope=Scope.READ, owner=Owner.RUN)
def file(session: Session, run_id: str, name: str) -> File:
    """Return a file of the run: its bytes and its media type.

    Args:
        name: The file's name, as in its reference. ``RUN/NAME`` is a file of the child run with
            the id RUN.

    Raises:
        RunNotFound: No run has this id, or no run has the id RUN.
        ArtifactNotFound: The run has no file of this name. The message lists its files.
    """
    child, _, own_name = name.rpartition("/")
    if not child:
        session.record(run_id)
    # A fork has copies of the files of child runs that its turns name.
    file = session.store.reads.file(run_id, name)
    if file is None and child:
        session.record(child)
        file = session.store.reads.file(child, own_name)
    if file is None:
        names = ", ".join(each.name for each in session.store.reads.files(child or run_id))
        raise ArtifactNotFound(
            f"run {child or run_id} has no file {own_name!r}; "
            f"{f'it has {names}' if names else 'it has none'}"
        )
    return file
