"""The live stream of a run: its events, or its events with the text that its rounds show.

First come the stored items after a given one, then each new item, until the run has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Generic, Protocol, TypeVar

from starlette.concurrency import run_in_threadpool

from perdure.worker.domain.event import LAST, Event
from perdure.worker.domain.stream import StreamItem, StreamReader
from perdure.worker.errors import DamagedRun, RunNotFound
from perdure.worker.store import StoreUnavailable
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.event_hub import Entry, EventHub, Subscriber

T = TypeVar("T", Event, StreamItem)

#: Items that are read and sent at once.
BATCH = 200
#: Seconds without an item after which the stream checks that the run still exists.
IDLE_SECONDS = 15.0
#: Seconds between two attempts while the state server is unavailable.
AWAY_SECONDS = 0.5


class StreamEnd(Enum):
    """Why no further item follows.

    The run has ended, was deleted, or all stored items are read and the client does not wait for
    more.
    """

    ENDED = "ended"
    GONE = "gone"
    CAUGHT_UP = "caught-up"


@dataclass(frozen=True)
class StreamRead(Generic[T]):
    """The next items of a run's stream.

    Attributes:
        items: Empty if there are none yet.
        ended: Whether the run has ended. Then further items follow only after a resume or a retry.
    """

    items: Sequence[T]
    ended: bool

    @property
    def is_all(self) -> bool:
        """Whether all stored items of an active run are read.

        If so, the live stream switches from polling to the event hub. A batch that is not full
        counts as all, because a busy run has new items at every read.
        """
        return (
            not self.ended
            and len(self.items) < BATCH
            and not (self.items and self.items[-1].type in LAST)
        )


def read_events(
    runs: AuthorizedClient, run_id: str, after: str | None, most: int = BATCH
) -> StreamRead[Event]:
    """Return a run's stored events after the event ``after``.

    The result also tells whether the run has ended. An event that cannot be read ends the list.

    Raises:
        DamagedRun: The next event or the run cannot be read.
        RunNotFound: The run does not exist.
        StoreUnavailable: The state server does not answer.
    """
    # Read first: if the run has ended by now, all of its events are stored.
    ended = runs.get(run_id).status.ended
    events: list[Event] = []
    try:
        for event in islice(runs.events(run_id, after, follow=False), most):
            events.append(event)
    except DamagedRun:
        if not events:
            raise
    return StreamRead(events, ended)


class Source(Protocol[T]):
    """A run's stream, read from a position that moves on with each read."""

    run_id: str

    def read(self) -> StreamRead[T]:
        """Return the stored items after the read position."""

    def join(self, hub: EventHub) -> Subscriber:
        """Subscribe to the items after the read position."""

    def items(self, entries: Sequence[Entry]) -> Sequence[T]:
        """Return a subscription's entries as items, and move the read position."""


class EventSource:
    """A run's events after the event ``after``. None: all."""

    def __init__(self, runs: AuthorizedClient, run_id: str, after: str | None) -> None:
        self.run_id = run_id
        self._runs, self._after = runs, after

    def read(self) -> StreamRead[Event]:
        """Return the events that are stored; see ``read_events``."""
        read = read_events(self._runs, self.run_id, self._after)
        self._go_on(read.items)
        return read

    def join(self, hub: EventHub) -> Subscriber:
        """Subscribe to new events."""
        return hub.join(self.run_id, self._after)

    def items(self, entries: Sequence[Entry]) -> Sequence[Event]:
        """Return the events among the entries."""
        events = [entry for entry in entries if isinstance(entry, Event)]
        self._go_on(events)
        return events

    def _go_on(self, events: Sequence[Event]) -> None:
        if events:
            self._after = events[-1].id


class TextSource:
    """A run's events and live text after the item ``after`` of its stream. None: all."""

    def __init__(self, runs: AuthorizedClient, run_id: str, after: str | None) -> None:
        self.run_id = run_id
        self._runs, self._reader = runs, StreamReader.after(after)

    def read(self) -> StreamRead[StreamItem]:
        """Return the stored items. It raises the errors of ``read_events``."""
        ended = self._runs.get(self.run_id).status.ended
        return StreamRead(self._runs.read_stream(self.run_id, self._reader), ended)

    def join(self, hub: EventHub) -> Subscriber:
        """Subscribe to new events and new text."""
        return hub.join(self.run_id, self._reader.event, self._reader.text)

    def items(self, entries: Sequence[Entry]) -> Sequence[StreamItem]:
        """Return the entries of a subscription as items of the stream."""
        return list(self._reader.items(entries))


async def watch(
    source: Source[T],
    hub: EventHub,
    first: StreamRead[T],
    follow: bool,
    seconds: float,
    pause: float | None = None,
) -> AsyncGenerator[Sequence[T] | StreamEnd]:
    """Yield a run's stored items, then new items as they come.

    Items come in batches. The last one is a StreamEnd if nothing follows. Without a StreamEnd, the
    stream ended for another reason: the time is up, the hub is closed, or an entry cannot be read.
    The client then asks again from the last item on.

    Args:
        first: The first read of the source.
        follow: Whether to wait for new items.
        seconds: Maximum duration.
        pause: Seconds without new items after which an empty batch is yielded. None: never.
    """
    until = time.monotonic() + seconds
    read: StreamRead[T] | None = first
    while True:
        if read is not None and read.items:
            yield read.items
        elif read is not None and (read.ended or not follow):
            yield StreamEnd.ENDED if read.ended else StreamEnd.CAUGHT_UP
            return
        if read is not None and follow and read.is_all:
            async with aclosing(_live_items(source, hub, until, pause)) as live_items:
                async for items in live_items:
                    yield items
        if time.monotonic() >= until or hub.closed:
            return
        try:
            read = await run_in_threadpool(source.read)
        except RunNotFound:
            yield StreamEnd.GONE
            return
        except DamagedRun:
            return
        except StoreUnavailable:
            read = None
            await asyncio.sleep(AWAY_SECONDS)


async def _live_items(
    source: Source[T], hub: EventHub, until: float, pause: float | None
) -> AsyncGenerator[Sequence[T]]:
    """Yield a run's new items in batches from the event hub.

    After ``pause`` seconds without new items, an empty batch is yielded. The generator ends when
    the run seems to have ended, at ``until`` (``time.monotonic()``), or after IDLE_SECONDS without
    items. Then the caller reads the run again.
    """
    subscriber = source.join(hub)
    try:
        idle_until = time.monotonic() + IDLE_SECONDS
        while subscriber.over is None and (seconds_left := until - time.monotonic()) > 0:
            entries = await subscriber.entries(min(seconds_left, pause or IDLE_SECONDS))
            if not entries and pause is not None and time.monotonic() < idle_until:
                yield ()
                continue
            idle_until = time.monotonic() + IDLE_SECONDS
            items = source.items(entries)
            if items:
                yield items
            if not entries or (items and items[-1].type in LAST):
                return
    finally:
        hub.leave(subscriber)
