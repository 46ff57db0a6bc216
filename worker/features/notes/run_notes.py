"""The notes of a round: in the flow's note store, or on the state server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from perdure.flows.core.errors import RoundStopped
from perdure.flows.core.names import ONLY
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.notes import ARTIFACT, Note, NoteAccess, Notes, NoteStore, filled
from perdure.worker.domain.record import VALUE, Record
from perdure.worker.errors import DamagedNote
from perdure.worker.features.notes.records import NoteRecords, wrong_type
from perdure.worker.settings import Settings
from perdure.worker.store import Store, StoreUnavailable
from perdure.worker.store.fence import Fence

#: The fields of a run's hash that a namespace may name.
FIELDS = ("flow", "submitted_by", "thread_id", "labels")


class RunNotes(NoteAccess):
    """The notes that a round can open. Nothing is read before the round opens a namespace.

    Args:
        fence: the claim of the round. None if no round runs. Then notes are read and written as by
            a client.
        broken: called with an error of the store before the error is raised. The node may catch the
            error, but then the round is not committed.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        record: Record,
        flow: Flow,
        fence: Fence | None = None,
        broken: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._store, self._settings, self._record, self._flow = store, settings, record, flow
        self._fence, self._broken = fence, broken
        self._shown: str | None = None

    def open(self, namespace: str) -> Notes:
        """Return the notes under a namespace, with facts of the run in place of names in braces.

        Raises:
            InvalidFlow: the namespace is not valid.
            FatalError: the run lacks a fact that the namespace names, or the filled-in namespace is
                not valid.
            StoreUnavailable: the state server does not answer. The round is not committed.
        """
        record = self._record
        where = f"run {record.id}, step {record.step}"
        return Notes(self._opened(where), filled(namespace, self._facts, where), record.id)

    def shown(self, artifact: Callable[[str], str], read: Callable[[], str]) -> str:
        """Return the text of the notes that the run's prompts show.

        The first round that needs the notes reads them, and its commit stores the text as an
        artifact. So every later round of the run shows the same text.

        Args:
            artifact: reads an artifact of the run by name. Raises KeyError for an unknown name.
            read: reads the notes, and returns them as one text. Called only if no earlier round
                stored the text.
        """
        if self._shown is None:
            try:
                self._shown = artifact(ARTIFACT)
            except KeyError:
                self._shown = read()
                self.artifacts = {ARTIFACT: self._shown}
        return self._shown

    def _opened(self, where: str) -> NoteStore:
        own: Any = self._flow.note_store
        if own is not None:
            opened: NoteStore = own.open() if callable(getattr(own, "open", None)) else own
            return opened
        return ServerNotes(self._store, self._settings, self._fence, where, self._broken)

    def _facts(self) -> Mapping[str, str]:
        """Return the facts of the run that a namespace may name.

        For a child run that executes one command of its parent, return the facts of the parent.

        Raises:
            StoreUnavailable: the state server does not answer. The round is not committed.
        """
        fields: Mapping[str, str] = self._record.fields
        if VALUE + ONLY in fields:
            try:
                [fields] = self._store.reads.some_fields([fields["parent"]], FIELDS)
            except StoreUnavailable as error:
                self._broken(error)
                raise
        facts = {"thread" if name == "thread_id" else name: fields.get(name, "") for name in FIELDS}
        labels = json.loads(facts.pop("labels") or "{}")
        return {**facts, **{f"labels.{name}": text for name, text in labels.items()}}


class ServerNotes:
    """The default note store, on the state server.

    Args:
        fence: the claim of the round that writes. None if no round writes.
        where: the run and the step, for error texts.
        broken: called with StoreUnavailable before it is raised. A command may catch the error, but
            then the round is not committed.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        fence: Fence | None,
        where: str,
        broken: Callable[[Exception], None],
    ) -> None:
        self._records = NoteRecords(store, settings)
        self._fence, self._where, self._broken = fence, where, broken

    def put(self, namespace: str, note: Note) -> None:
        """Store a note, replacing a note with the same key.

        The state server sets the time of the note, so ``note.at`` is ignored. A note that is stored
        already, with the same content, keeps its time.

        Raises:
            UnstorableValue: the note is too long.
            RoundStopped: the round has lost its lease, or the run has left this step.
            DamagedNote: a key on the state server is damaged.
            StoreUnavailable: the state server does not answer. The round is not committed.
        """
        with self._reporting_broken():
            word, detail, _ = self._records.put(namespace, note, self._fence)
        self._check(word, detail, f"the note {note.key!r} was not kept in {namespace!r}")

    def get(self, namespace: str, key: str) -> Note | None:
        """Return the note with this key, or None if there is none.

        Raises:
            DamagedNote: the stored note cannot be read.
            StoreUnavailable: as for ``put``.
        """
        with self._reporting_broken():
            return self._records.get(namespace, key)

    def search(self, namespace: str, words: str, limit: int) -> Sequence[Note]:
        """Return notes that have one of the words. Notes with more of the words come first.

        Without words, return the newest notes.

        Raises:
            DamagedNote: a stored note cannot be read.
            StoreUnavailable: as for ``put``.
        """
        with self._reporting_broken():
            return self._records.search(namespace, words, limit)

    def forget(self, namespace: str, key: str) -> bool:
        """Delete the note with this key, and return whether the note existed.

        Raises:
            RoundStopped, DamagedNote, StoreUnavailable: as for ``put``.
        """
        with self._reporting_broken():
            word, detail = self._records.forget(namespace, key, self._fence)
        self._check(word, detail, f"the note {key!r} of {namespace!r} was not deleted")
        return detail != "0"

    def _check(self, word: str, detail: str, what: str) -> None:
        """Raise an error unless a Lua script has replied ``ok``.

        Args:
            word: the first word of the reply.
            detail: the second word of the reply. With ``damaged``, it is the damaged key.
            what: the failed operation, for the error text.

        Raises:
            DamagedNote: a key on the state server is damaged.
            RoundStopped: the round has lost its lease, or the run has left this step.
        """
        if word == "damaged":
            raise DamagedNote(f"{self._where}: {what}: {wrong_type(detail)}")
        if word != "ok":
            raise RoundStopped(
                f"{self._where}: {what}: the round belongs to another worker, or the run has left "
                "it, was stopped or deleted"
            )

    @contextmanager
    def _reporting_broken(self) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable as error:
            self._broken(error)
            raise
