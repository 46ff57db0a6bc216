"""Reads of the new events and the new live text of runs.

One command reads several runs, because many people watch runs through one server process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perdure.worker.domain.event import Event, is_trimmed
from perdure.worker.domain.stream import StreamItem, StreamReader, TextEntry
from perdure.worker.errors import DamagedRun
from perdure.worker.store.live_text import Entry, LiveTextRecords

if TYPE_CHECKING:
    from perdure.worker.operations.session import Session
    from perdure.worker.store import Store

#: The argument ``text_after`` for reading events without live text.
NO_TEXT: Mapping[str, str] = {}


@dataclass(frozen=True)
class EventBatch:
    """Events of one run, oldest first.

    Attributes:
        events: The events.
        damaged: Whether the read ended early: the entry after these events is not a valid event, or
            the key of the events has a wrong type.
        texts: Live text that was read at the same moment. Empty if no live text was requested.
    """

    events: list[Event] = field(default_factory=list)
    damaged: bool = False
    texts: list[TextEntry] = field(default_factory=list)


def hear(
    session: Session,
    after: Mapping[str, str],
    block: int,
    text_after: Mapping[str, str] = NO_TEXT,
) -> dict[str, EventBatch]:
    """Return the new events and live text of several runs, by run id.

    If there are none yet, wait for the first entry. A run without new entries is left out. If
    events after the named one are gone, the run's first event has the type ``trimmed``.

    The live text of a run is left out if its key has a wrong type. If the key of a run's events has
    a wrong type, each run is read alone. Then the call reads no live text, does not wait, and
    returns every run.

    Args:
        after: For each run id, the id of an event. Only later events are read.
        block: Maximum time in ms to wait for a first entry.
        text_after: For each run id whose live text is read too, the id of a text entry. Only later
            entries are read.

    Raises:
        StoreUnavailable: The state server does not reply.
    """
    store, records = session.store, LiveTextRecords(session.store)
    try:
        found = records.with_events(after, text_after, block)
        batches = {run_id: _parse(*entries) for run_id, entries in found.items()}
        told = [run_id for run_id, batch in batches.items() if batch.events]
        oldest = store.events.oldest(told) if told else {}
        for run_id, batch in batches.items():
            if batch.events and is_trimmed(after[run_id], batch.events[0], oldest.get(run_id)):
                batch.events.insert(0, Event.trimmed(batch.events[0]))
        return batches
    except DamagedRun:
        # One key of another type fails the whole read without being named.
        damaged, textless = records.damaged(after, text_after)
        if textless and not damaged:
            # The events still come, and everything of the other runs. This read blocks like the
            # first one: without blocking, one damaged key would make its reader spin.
            others = {run_id: last for run_id, last in text_after.items() if run_id not in textless}
            return hear(session, after, block, others)
        return {run_id: _read_alone(store, run_id, last) for run_id, last in after.items()}


def read_stream(
    session: Session, run_id: str, reader: StreamReader, block: int | None = None
) -> list[StreamItem]:
    """Return the unread items of a run's stream, or an empty list if there are none.

    Args:
        reader: Stores the position in the stream. This call moves it behind the returned items.
        block: Maximum time in ms to wait for a first item. None does not wait.

    Raises:
        DamagedRun: The first unread item cannot be read. If a later item cannot be read, the items
            before it are returned.
    """
    found = LiveTextRecords(session.store).with_events(
        {run_id: reader.event}, {run_id: reader.text}, block
    )
    if run_id not in found:
        return []
    batch = _parse(*found[run_id])
    entries: list[Event | TextEntry] = [*batch.events, *batch.texts]
    if batch.damaged and not entries:
        raise DamagedRun(f"an event of run {run_id} cannot be read")
    return list(reader.items(entries))


def _read_alone(store: Store, run_id: str, after: str) -> EventBatch:
    try:
        return _parse(store.events.read(run_id, after))
    except DamagedRun:
        return EventBatch(damaged=True)


def _parse(entries: Iterable[Entry], texts: Iterable[Entry] = ()) -> EventBatch:
    batch = EventBatch(texts=[TextEntry(*entry) for entry in texts])
    for entry_id, entry in entries:
        try:
            batch.events.append(Event.of(entry_id, entry))
        except DamagedRun:
            return replace(batch, damaged=True)
    return batch
