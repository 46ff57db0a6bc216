"""The notes in the store: for each namespace a hash of notes, and a sorted set with their times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from perdure.flows.core.errors import UnstorableValue
from perdure.flows.core.json_values import canonical
from perdure.flows.rounds.notes import Note, fitting
from perdure.worker.errors import DamagedNote

if TYPE_CHECKING:
    from perdure.worker.settings import Settings
    from perdure.worker.store.connection import StoreConnection
    from perdure.worker.store.fence import Fence
    from perdure.worker.store.keys import Keys

#: The end of the range of all namespaces that begin with a text: no name has this byte.
_LAST = "\xff"


class NoteCount(NamedTuple):
    """A namespace that has notes.

    Attributes:
        namespace: the name of the namespace.
        notes: the number of notes in the namespace.
        newest: the time at which the newest note was written (ms).
    """

    namespace: str
    notes: int
    newest: int


def keys_of(keys: Keys, namespace: str) -> tuple[str, str]:
    """Return the two Redis keys of a namespace.

    The first is the hash of its notes, by the note's key. The second is a sorted set of the notes'
    keys, by the time of the last change (ms).
    """
    return keys.of_feature("notes", namespace), keys.of_feature("notes_order", namespace)


def index_of(keys: Keys) -> str:
    """Return the Redis key of the sorted set of namespaces with notes. Every score is 0."""
    return f"{keys.prefix}:notes_index"


class NoteRecords:
    """The notes in a store, within the limits ``max_notes`` and ``max_note_bytes``."""

    def __init__(self, store: StoreConnection, settings: Settings) -> None:
        self._store = store
        self._most, self._most_bytes = settings.max_notes, settings.max_note_bytes

    def put(
        self, namespace: str, note: Note, fence: Fence | None = None
    ) -> tuple[str, str, list[str]]:
        """Store a note, replacing a note with the same key.

        If the namespace has too many notes, the oldest are deleted.

        Args:
            fence: the claim of the round that writes. The note is stored only if this claim is
                still valid. None: a client writes.

        Returns:
            Three parts of the reply of put_note.lua. The first word is ``ok`` if the note was
                stored, and ``fenced`` if the claim is no longer valid. The second part is the
                note's time (ms), or the damaged key, or empty. The third part has the keys of the
                deleted notes.

        Raises:
            UnstorableValue: the note is too long.
        """
        text = packed(note)
        size = len(text.encode())
        if size > self._most_bytes:
            raise UnstorableValue(
                f"the note {note.key!r} of {namespace!r} takes {size} bytes; the limit is "
                f"{self._most_bytes} (max_note_bytes). Keep less, or a reference to it"
            )
        named = {"key": note.key, "note": text, "most": self._most}
        word, *details = self._call("put_note", namespace, named, fence)
        return word, details[0] if details else "", details[1:]

    def forget(
        self, namespace: str, key: str | None = None, fence: Fence | None = None
    ) -> tuple[str, str]:
        """Delete one note of a namespace, or all if ``key`` is None.

        Args:
            fence: as for ``put``.

        Returns:
            Two parts of the reply of forget_notes.lua: the first word, as for ``put``, and the
                number of deleted notes, or the damaged key, or empty.
        """
        word, *details = self._call("forget_notes", namespace, {"key": key}, fence)
        return word, details[0] if details else ""

    def get(self, namespace: str, key: str) -> Note | None:
        """Return the note with this key, or None if there is none.

        Raises:
            DamagedNote: the stored note cannot be read.
        """
        notes, order = keys_of(self._store.keys, namespace)
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            # The time is read on both sides, because a note may be written or deleted between two
            # reads. No MULTI: a server that is full would refuse even to read in one.
            pipe.zscore(order, key)
            pipe.hget(notes, key)
            pipe.zscore(order, key)
            before, text, after = pipe.execute()
        at = before if after is None else after
        return None if text is None else _note(namespace, key, text, at)

    def newest(self, namespace: str, limit: int) -> list[Note]:
        """Return at most ``limit`` notes of a namespace, newest first.

        Raises:
            DamagedNote: a stored note cannot be read.
        """
        notes, order = keys_of(self._store.keys, namespace)
        with self._store._answered():
            found: Any = self._store.redis.zrevrange(order, 0, limit - 1, withscores=True)
            if not found:
                return []
            texts = self._store.redis.hmget(notes, [key for key, _ in found])
        # A note that was deleted between the two reads is left out.
        pairs = zip(found, cast("list[str | None]", texts), strict=True)
        return [_note(namespace, key, text, at) for (key, at), text in pairs if text is not None]

    def search(self, namespace: str, words: str, limit: int) -> list[Note]:
        """Return notes that have one of the words. Notes with more of the words come first.

        All notes of the namespace are read. Without words, return the newest notes.

        Raises:
            DamagedNote: a stored note cannot be read.
        """
        if not words.strip():
            return self.newest(namespace, limit)
        notes, order = keys_of(self._store.keys, namespace)
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            pipe.zrange(order, 0, -1, withscores=True)  # on both sides, as in ``get``
            pipe.hgetall(notes)
            pipe.zrange(order, 0, -1, withscores=True)
            before, texts, after = pipe.execute()
        times = dict(before) | dict(after)
        found = (_note(namespace, key, text, times.get(key)) for key, text in texts.items())
        return fitting(found, words, limit)

    def namespaces(self, prefix: str, limit: int, after: str | None = None) -> list[NoteCount]:
        """Return the namespaces that begin with ``prefix`` and have notes, sorted by name.

        Args:
            after: return only names after this one. None: begin with the first name.
        """
        index = index_of(self._store.keys)
        first = f"[{prefix}" if after is None else f"({after}"
        with self._store._answered():
            names: Any = self._store.redis.zrange(
                index,
                cast(Any, first),
                cast(Any, f"[{prefix}{_LAST}"),
                bylex=True,
                offset=0,
                num=limit,
            )
            with self._store.redis.pipeline(transaction=False) as pipe:
                for name in names:
                    _, order = keys_of(self._store.keys, name)
                    pipe.zcard(order)
                    pipe.zrevrange(order, 0, 0, withscores=True)
                replies = pipe.execute()
        pairs = zip(names, replies[::2], replies[1::2], strict=True)
        return [
            NoteCount(name, count, int(newest[0][1])) for name, count, newest in pairs if newest
        ]

    def _call(
        self, script: str, namespace: str, named: dict[str, Any], fence: Fence | None
    ) -> list[str]:
        keys = [*keys_of(self._store.keys, namespace), index_of(self._store.keys)]
        named["namespace"] = namespace
        if fence is not None:
            keys.append(self._store.keys.run(fence.run_id))
            named |= {"token": fence.token, "claim": fence.claim}
        return self._store._call(script, keys, named)


def wrong_type(key: str) -> str:
    """Return the end of the error text for a Redis key of a wrong type."""
    return (
        f"{key} has a wrong type on the server. Find out who wrote to it, and delete it. Nothing "
        "was changed"
    )


def packed(note: Note) -> str:
    """Return a note as it is stored: JSON without its key and its time."""
    return canonical({"text": note.text, "value": note.value, "run_id": note.run_id})


def _note(namespace: str, key: str, text: str, at: Any) -> Note:
    try:
        data = json.loads(text)
        when = datetime.fromtimestamp(float(at) / 1000, UTC)
        return Note(key, str(data["text"]), data["value"], when, data["run_id"])
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise DamagedNote(
            f"the note {key!r} of {namespace!r} cannot be read ({error!r}). Delete it: "
            f"perdure notes delete {namespace} {key}"
        ) from error
