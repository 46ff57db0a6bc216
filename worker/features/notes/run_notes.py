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
    """The notes that a run's rounds can open. Nothing is read before the first is opened.

    Args:
        fence: the round that writes, or None for a reader.
        broken: called with an error that makes the round's result worthless.
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
        """Open a namespace, filling in facts of the run.

        Raises:
            InvalidFlow: the namespace is not valid.
            FatalError: the run lacks a fact that the namespace names.
            StoreUnavailable: the state server does not answer. The round is lost.
        """
        record = self._record
        where = f"run {record.id}, step {record.step}"
        return Notes(self._opened(where), filled(namespace, self._facts, where), record.id)

    def shown(self, artifact: Callable[[str], str], read: Callable[[], str]) -> str:
        """Return the text of the notes that the run's prompts show.

        The first round that needs the notes reads them, and its commit stores the text. So each
        later round of the run shows the same.
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
        """Return the facts that a namespace may name. A child run for one call has its parent's."""
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
        fence: the round that writes, or None for a reader.
        where: the run and the step, for error texts.
        broken: called with an error of the store, because a command may catch the error.
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
        """Store a note, replacing one with the same key. Its time is the state server's.

        Raises:
            UnstorableValue: the note is too long.
            RoundStopped: the round has lost its lease, or the run has left this step.
            DamagedNote: a key on the state server is damaged.
            StoreUnavailable: the state server does not answer. The round is lost.
        """
        with self._reporting_broken():
            word, detail, _ = self._records.put(namespace, note, self._fence)
        self._check(word, detail, f"the note {note.key!r} was not kept in {namespace!r}")

    def get(self, namespace: str, key: str) -> Note | None:
        """Return the note with this key, or None."""
        with self._reporting_broken():
            return self._records.get(namespace, key)

    def search(self, namespace: str, words: str, limit: int) -> Sequence[Note]:
        """Return notes that fit the words, best first.

        Without words, the newest come first.
        """
        with self._reporting_broken():
            return self._records.search(namespace, words, limit)

    def forget(self, namespace: str, key: str) -> bool:
        """Delete a note, and return whether it existed.

        Raises:
            RoundStopped, DamagedNote, StoreUnavailable: as for ``put``.
        """
        with self._reporting_broken():
            word, detail = self._records.forget(namespace, key, self._fence)
        self._check(word, detail, f"the note {key!r} of {namespace!r} was not deleted")
        return detail != "0"

    def _check(self, word: str, detail: str, what: str) -> None:
        """Raise an error unless the reply of a Lua script (``word`` and ``detail``) is ``ok``."""
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
