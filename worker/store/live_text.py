"""The live text of runs in the store: a stream for each run, which expires by itself.

It is outside of the protocol. No transition reads or writes it, but a deletion deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.worker.store.queries import Queries

#: Entries that a run's stream keeps; the server may keep somewhat more.
MOST_ENTRIES = 2_000
#: Milliseconds after the last entry when the stream expires.
KEPT_MS = 3_600_000

#: An entry: its id and its fields.
Entry = tuple[str, dict[str, str]]


class LiveTextRecords:
    """The live text in a store."""

    def __init__(self, store: Queries) -> None:
        self._store = store

    def append(self, run_id: str, entries: Sequence[Mapping[str, Any]], now: int) -> None:
        """Append entries to the live text of a run.

        Args:
            now: by the server's clock, in ms.
        """
        key = self._store.keys.live_text(run_id)
        with self._store._answered(), self._store.redis.pipeline(transaction=False) as pipe:
            for entry in entries:
                fields: dict[Any, Any] = dict(entry)
                pipe.xadd(key, fields, maxlen=MOST_ENTRIES, approximate=True)
            pipe.pexpireat(key, now + KEPT_MS)
            pipe.execute()

    def with_events(
        self,
        events_after: Mapping[str, str],
        text_after: Mapping[str, str],
        block: int | None = None,
        count: int = 500,
    ) -> dict[str, tuple[list[Entry], list[Entry]]]:
        """Return the new events and the new live text of runs by run id, in one read.

        A run without either is left out.

        Args:
            events_after: For each run id, the id of the event after which to read.
            text_after: For each run id whose text is read too, the entry after which to read.
            block: Wait up to this many ms for something new.
        """
        keys = self._store.keys
        places = {keys.events(run_id): after for run_id, after in events_after.items()}
        places |= {keys.live_text(run_id): after for run_id, after in text_after.items()}
        found = self._store.streams(places, block, count)
        read: dict[str, tuple[list[Entry], list[Entry]]] = {}
        for run_id in events_after:
            events = found.get(keys.events(run_id), [])
            texts = found.get(keys.live_text(run_id), [])
            # What is left of the one is not older than what was read of the other.
            if len(events) == count:
                texts = [each for each in texts if _time(each) <= _time(events[-1])]
            elif len(texts) == count:
                events = [each for each in events if _time(each) < _time(texts[-1])]
            if events or texts:
                read[run_id] = events, texts
        return read


def _time(entry: Entry) -> tuple[int, int]:
    ms, _, number = entry[0].partition("-")
    return int(ms), int(number)
