"""Notes: texts that a run keeps for later runs, under a namespace.

Notes are neither the history of a run nor the value ``memory`` of a ring
(``flows/rings/memory.py``). The history and the memory belong to one run and end with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import quote

from perdure.flows.core.errors import FatalError, InvalidFlow, UnstorableValue
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import suggest

#: Form of a namespace, which is part of a key's name on the state server.
NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+%-]{0,199}")
#: Form of a note's key.
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}")
#: The names that a namespace may have in braces, each filled in with a fact of the run.
FACTS = ("submitted_by", "thread", "flow", "labels.NAME")
_PLACE = re.compile(r"\{([^{}]*)\}")
#: The characters of a filled-in text that stay as they are, beside letters and digits. The others
#: are encoded, ':' among them, so that no text can reach over into the next part of a namespace.
_KEPT = "_.@+-"
#: Notes that a search returns by default.
FOUND = 10
#: A word of a search that is this long also fits as the beginning of a longer word.
BEGINNING = 3
#: The artifact with the notes that a run's prompt shows.
ARTIFACT = "notes"
_WORD = re.compile(r"\w+")
#: The time of a note that no store has yet.
UNWRITTEN = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Note:
    """A short text that a run has kept for later runs.

    Attributes:
        key: the note's name in its namespace: letters, digits and ``_.:@+-``, at most 100.
        text: the note's text.
        value: JSON data beside the text, or None.
        at: when it was written.
        run_id: the run that wrote it, or None if a client did.
    """

    key: str
    text: str
    value: Any = None
    at: datetime = UNWRITTEN
    run_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return this note as JSON data."""
        return {
            "key": self.key,
            "text": self.text,
            "value": self.value,
            "at": self.at.isoformat(),
            "run_id": self.run_id,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Note:
        """Return the note from the JSON data of ``to_dict``."""
        return cls(**{**data, "at": datetime.fromisoformat(data["at"])})


class NoteStore(Protocol):
    """A store of notes. The default store is on the state server.

    A flow sets another store as its ``note_store``. Several threads may call the methods at once.
    An exception that a method raises counts as an exception of the node that uses the notes.
    """

    def put(self, namespace: str, note: Note) -> None:
        """Keep a note. It replaces a note with the same key.

        A round that is tried again puts the same note again.
        """

    def get(self, namespace: str, key: str) -> Note | None:
        """Return the note with this key, or None."""

    def search(self, namespace: str, words: str, limit: int) -> Sequence[Note]:
        """Return the notes that fit the words, the best first.

        Without words, return the newest first.
        """

    def forget(self, namespace: str, key: str) -> bool:
        """Delete the note with this key. Return whether it existed."""


class Notes:
    """The notes under one namespace, for a run. See ``RoundContext.notes``.

    Args:
        store: keeps the notes.
        namespace: the namespace, with its names in braces filled in.
        run_id: the run that writes. None for a client.
    """

    def __init__(self, store: NoteStore, namespace: str, run_id: str | None = None) -> None:
        self.namespace = namespace
        self._store, self._run_id = store, run_id

    def put(self, text: str, key: str | None = None, value: Any = None) -> Note:
        """Keep a note for later runs. It replaces a note with the same key.

        The note is stored at once, before the round commits. A round that is tried again puts the
        same note once more, which changes nothing as long as it has the same key.

        Args:
            text: the text of the note, which searches find.
            key: the note's name. None derives it from the text, so that equal texts are one note.
            value: JSON data or a pydantic model beside the text.

        Returns:
            The note. Its time is that of this worker's clock, until the note is read.

        Raises:
            UnstorableValue: the note is empty, too long or not JSON.
            InvalidFlow: the key is not valid.
            RoundStopped: the run has left this step.
        """
        note = checked_note(text, key, value)
        note = replace(note, at=datetime.now(UTC), run_id=self._run_id)
        self._store.put(self.namespace, note)
        return note

    def get(self, key: str) -> Note | None:
        """Return the note with this key, or None."""
        return self._store.get(self.namespace, key)

    def search(self, words: str = "", limit: int = FOUND) -> list[Note]:
        """Return the notes that fit the words, the best first.

        Without words, return the newest first. The default store finds plain words: a note fits if
        it has one of the words, or a longer word that begins with one. Notes with more of the words
        come first, and newer notes before older ones.
        """
        return list(self._store.search(self.namespace, words, limit))[:limit]

    def forget(self, key: str) -> bool:
        """Delete the note with this key. Return whether it existed.

        Raises:
            RoundStopped: the run has left this step.
        """
        return self._store.forget(self.namespace, key)


class NoteAccess:
    """The notes that a round can open. This default is for a context without a run.

    Attributes:
        artifacts: the notes that the round has shown to a model, which its commit keeps.
    """

    artifacts: Mapping[str, str] = {}

    def open(self, namespace: str) -> Notes:
        """Raise InvalidFlow, because no worker made this context.

        A subclass returns the notes under the namespace, with facts of the run in place of the
        names in braces.
        """
        raise InvalidFlow(
            "context.notes: this context has no notes, because no worker made it; pass "
            "note_access=perdure.flows.rounds.notes.NotesIn(STORE)"
        )

    def shown(self, artifact: Callable[[str], str], read: Callable[[], str]) -> str:
        """Return the text of the notes that the run's prompts show.

        This default calls ``read`` each time. A worker's subclass calls ``read`` once in a run, and
        keeps the text as an artifact.

        Args:
            artifact: reads an artifact of the run by name. Raises KeyError for an unknown name.
            read: reads the notes, and returns them as one text.
        """
        return read()


#: For a context that no worker has made.
NO_NOTES = NoteAccess()


class NotesIn(NoteAccess):
    """The notes of one store, for contexts in tests.

    Args:
        store: keeps the notes.
        facts: the texts for the names in braces in a namespace, by name.
    """

    def __init__(self, store: NoteStore, facts: Mapping[str, str] | None = None) -> None:
        self._store, self._facts = store, dict(facts or {})

    def open(self, namespace: str) -> Notes:
        """Return the notes under a namespace, with facts in place of the names in braces.

        Raises:
            InvalidFlow: the namespace is not valid.
            FatalError: a fact that the namespace names is missing.
        """
        return Notes(self._store, filled(namespace, lambda: self._facts, "this context"))


def check_namespace(template: object, what: str = "the namespace") -> None:
    """Raise InvalidFlow if a namespace, or a name in its braces, is not valid.

    Args:
        what: the beginning of the error text.
    """
    if isinstance(template, str):
        for name in _PLACE.findall(template):
            if name not in FACTS[:-1] and not name.removeprefix("labels."):
                raise InvalidFlow(f"{what} {template!r:.300} has an empty name")
            if name not in FACTS[:-1] and not name.startswith("labels."):
                raise InvalidFlow(
                    f"{what} {template!r:.300} names {name!r}, which no run has; "
                    f"{suggest(name, FACTS)}"
                )
        if NAMESPACE.fullmatch(_PLACE.sub("x", template)):
            return
    raise InvalidFlow(
        f"{what} is {template!r:.300}; expected letters, digits and _ . : @ + - %, at most 200, a "
        "letter or digit first, and facts of the run in braces, such as user:{submitted_by}"
    )


def filled(template: str, facts: Callable[[], Mapping[str, str]], where: str) -> str:
    """Return a namespace with facts of a run in place of the names in braces.

    Args:
        facts: returns the facts of the run, by name.
        where: the run and the step, for error texts.

    Raises:
        InvalidFlow: the namespace is not valid.
        FatalError: the run lacks a fact that the namespace names, or the filled-in namespace is not
            valid.
    """
    check_namespace(template, f"{where}: the namespace of notes")
    if "{" not in template:
        return template
    of_run = facts()
    for name in _PLACE.findall(template):
        if not of_run.get(name):
            raise FatalError(
                f"{where}: the namespace {template!r} of its notes needs {name}, and the run has "
                f"none. Submit a new run with it ({_option(name)}), or leave it out of the "
                "namespace"
            )
    namespace = _PLACE.sub(lambda place: quote(of_run[place[1]], safe=_KEPT), template)
    if not NAMESPACE.fullmatch(namespace):
        raise FatalError(
            f"{where}: the namespace {namespace!r:.300} of its notes is not valid; expected at "
            "most 200 characters, a letter or digit first"
        )
    return namespace


def _option(fact: str) -> str:
    """Return the ``perdure`` command with which a submission sets a fact of its run."""
    if fact.startswith("labels."):
        return f"perdure submit --label {fact.removeprefix('labels.')}=TEXT"
    return {
        "submitted_by": "perdure submit --by NAME",
        "thread": "perdure send THREAD",
    }.get(fact, "see perdure submit --help")


def checked_note(text: object, key: object, value: object) -> Note:
    """Validate the parts of a note, and return the note. Its time is not set.

    Args:
        key: the key of the note. None: a key is derived from the text.

    Raises:
        UnstorableValue: ``text`` is empty or not a str, or ``value`` is not JSON.
        InvalidFlow: the key is not valid.
    """
    plain = storable(text, "the text of the note")
    if not isinstance(plain, str) or not plain.strip():
        raise UnstorableValue(f"the text of a note is {text!r:.100}; expected some text")
    if key is None:
        key = hashlib.sha256(plain.encode()).hexdigest()[:12]
    return Note(checked_key(key), plain, storable(value, "the value of the note"))


def checked_key(key: object) -> str:
    """Validate the key of a note, and return it.

    Raises:
        InvalidFlow: the key is not valid.
    """
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise InvalidFlow(
            f"{key!r:.200} is no key of a note; expected letters, digits and _ . : @ + -, at most "
            "100, a letter or digit first"
        )
    return key


def fitting(notes: Iterable[Note], words: str, limit: int) -> list[Note]:
    """Return at most ``limit`` notes that have one of the words.

    Notes with more of the words come first, and newer notes before older ones. Without words, all
    notes fit, and the newest are returned.
    """
    wanted = set(_WORD.findall(words.casefold()))
    newest = sorted(notes, key=lambda note: note.at, reverse=True)
    if not wanted:
        return newest[:limit]
    ranks = [(_rank(note, wanted), note) for note in newest]
    ranks = [(rank, note) for rank, note in ranks if rank]
    ranks.sort(key=lambda pair: -pair[0])  # It keeps the order of equal ones.
    return [note for _, note in ranks[:limit]]


def _rank(note: Note, wanted: Iterable[str]) -> int:
    """Return how many of the words ``wanted`` a note has.

    A word of at least ``BEGINNING`` characters counts also as the beginning of a longer word.
    """
    value = "" if note.value is None else canonical(note.value)
    held = set(_WORD.findall(f"{note.key} {note.text} {value}".casefold()))
    return sum(
        word in held or (len(word) >= BEGINNING and any(longer.startswith(word) for longer in held))
        for word in wanted
    )


def check_note_store(store: Any, name: str) -> None:
    """Raise InvalidFlow unless ``store`` is None, a ``NoteStore`` or a lifespan.

    Any object with a method ``open`` counts as a lifespan. Its value is not checked.

    Args:
        store: the flow's ``note_store``.
        name: the flow's name, for the error text.
    """
    methods = ("put", "get", "search", "forget")
    if store is None or callable(getattr(store, "open", None)):
        return
    missing = [method for method in methods if not callable(getattr(store, method, None))]
    if missing:
        raise InvalidFlow(
            f"{name}: note_store is {store!r}; expected a NoteStore (it has no "
            f"{', '.join(missing)}), or what @lifespan makes of a function that yields one"
        )
