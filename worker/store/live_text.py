"""The live text of runs in the store: one stream for each run.

No transition reads it. The stream expires some time after its last entry, and not later than the
run itself. If a run is deleted, its stream is deleted too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.worker.errors import DamagedRun

if TYPE_CHECKING:
    from perdure.worker.store.fence import Fence
    from perdure.worker.store.transitions import Store

#: Entries that a run's stream keeps. The server may keep somewhat more.
MOST_ENTRIES = 2_000
#: Milliseconds after the last entry when the stream expires.
KEPT_MS = 3_600_000

#: The texts of an entry that show_text.lua expects.
PARTS_OF_ENTRY = ("number", "kind", "part", "text")

#: An entry: its id and its fields.
Entry = tuple[str, dict[str, str]]


class LiveTextRecords:
    """Writes and reads of the live text of runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(
        self, fence: Fence, step: int, attempt: int, entries: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Append entries if the round still has its lease.

        Args:
            fence: the claim of the round.
            entries: number in the attempt, kind, part and text of each entry. An entry that was
                appended before is not appended again.

        Returns:
            False if nothing was appended, because the round has lost its lease: another attempt has
            replaced it, or the run was stopped, deleted or submitted again.

        Raises:
            DamagedRun: The key of the live text is of a wrong type.
        """
        keys = self._store.keys
        reply = self._store._call(
            "show_text",
            [keys.run(fence.run_id), keys.live_text(fence.run_id)],
            {
                "token": fence.token,
                "claim": fence.claim,
                "step": step,
                "attempt": attempt,
                "most": MOST_ENTRIES,
                "keep": KEPT_MS,
            },
            rest=[str(entry[name]) for entry in entries for name in PARTS_OF_ENTRY],
        )
        if reply[0] == "damaged":
            raise DamagedRun(f"{reply[1]} has a wrong type on the server, so no text can be shown")
        return bool(reply[0] == "ok")

    def damaged(
        self, events_of: Iterable[str], text_of: Iterable[str]
    ) -> tuple[list[str], list[str]]:
        """Return runs with unreadable events or live text.

        Their keys have a wrong type. A missing key is no damage.

        Args:
            events_of: Ids of runs whose events to check.
            text_of: Ids of runs whose live text to check.

        Returns:
            The ids of runs with unreadable events, and the ids of runs with unreadable live text.
        """
        keys, store = self._store.keys, self._store
        events, texts = list(events_of), list(text_of)
        with store._answered(), store.redis.pipeline(transaction=False) as pipe:
            for key in (*map(keys.events, events), *map(keys.live_text, texts)):
                pipe.type(key)
            types: list[str] = pipe.execute()
        bad = [each not in ("stream", "none") for each in types]
        return (
            [run_id for run_id, is_bad in zip(events, bad, strict=False) if is_bad],
            [run_id for run_id, is_bad in zip(texts, bad[len(events) :], strict=True) if is_bad],
        )

    def with_events(
        self,
        events_after: Mapping[str, str],
        text_after: Mapping[str, str],
        block: int | None = None,
        count: int = 500,
    ) -> dict[str, tuple[list[Entry], list[Entry]]]:
        """Return new events and new live text, by run id.

        One command reads all of them. A run that has neither is left out. If one of the two lists
        of a run reaches ``count``, newer entries of the other list are left for the next read.

        Args:
            events_after: For each run id, the id of an event. Only later events are read.
            text_after: For each run id, the id of an entry. Only later entries are read. The live
                text of a run that is not named here is not read.
            block: Wait up to this many ms for something new. None: do not wait.
            count: The maximum number of entries of each stream.

        Returns:
            For each run, its events and the entries of its live text.
        """
        keys = self._store.keys
        places = {keys.events(run_id): after for run_id, after in events_after.items()}
        places |= {keys.live_text(run_id): after for run_id, after in text_after.items()}
        found = self._store.events.read_streams(places, block, count)
        read: dict[str, tuple[list[Entry], list[Entry]]] = {}
        for run_id in events_after:
            events = found.get(keys.events(run_id), [])
            texts = found.get(keys.live_text(run_id), [])
            # Unread entries of the one are not older than the read entries of the other.
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
