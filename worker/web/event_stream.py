"""The live stream of a run: events, with or without text.

The stream begins with the stored items after a given item. Then each new item follows, until the
run has ended.
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
    """The reason why no further item follows in a stream.

    Attributes:
        ENDED: The run has ended.
        GONE: The run was deleted.
        CAUGHT_UP: All stored items were sent, and the client does not wait for new ones.
    """

    ENDED = "ended"
    GONE = "gone"
    CAUGHT_UP = "caught-up"


@dataclass(frozen=True)
class StreamRead(Generic[T]):
    """The next items of a run's stream.

    Attributes:
        items: The stored items, oldest first. Empty if no new item is stored.
        ended: Whether the run has ended. Further items then follow only after a resume or a retry.
    """

    items: Sequence[T]
    ended: bool

    @property
    def is_all(self) -> bool:
        """Whether this read has all stored items of a live run.

        If so, the live stream switches from polling to the event hub. The test is that the read has
        fewer than BATCH items, and not that it has none: a busy run has new items at every read.
        After an event that ends the run, the value is False.
        """
        return (
            not self.ended
            and len(self.items) < BATCH
            and not (self.items and self.items[-1].type in LAST)
        )


def read_events(
    runs: AuthorizedClient, run_id: str, after: str | None, most: int = BATCH
) -> StreamRead[Event]:
    """Return a run's stored events, and whether the run has ended.

    An event that cannot be read ends the list before it.

    Args:
        after: The id of the event after which to read. None: from the first event.
        most: Maximum number of events.

    Raises:
        DamagedRun: The run, or the first event after ``after``, cannot be read.
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
    """A source of a run's stream items, with a read position.

    The read position is that of the last item that the source returned.
    """

    run_id: str

    def read(self) -> StreamRead[T]:
        """Return the stored items after the read position.

        The read position then advances.
        """

    def join(self, hub: EventHub) -> Subscriber:
        """Subscribe to the new items after the read position."""

    def items(self, entries: Sequence[Entry]) -> Sequence[T]:
        """Return a subscription's entries as stream items.

        The read position then advances.
        """


class EventSource:
    """The events of a run, as a source.

    Args:
        after: The id of the event after which the source begins. None: it begins with the first.
    """

    def __init__(self, runs: AuthorizedClient, run_id: str, after: str | None) -> None:
        self.run_id = run_id
        self._runs, self._after = runs, after

    def read(self) -> StreamRead[Event]:
        """Return the stored events after the read position.

        The read position then advances. For errors see ``read_events``.
        """
        read = read_events(self._runs, self.run_id, self._after)
        self._go_on(read.items)
        return read

    def join(self, hub: EventHub) -> Subscriber:
        """Subscribe to the new events after the read position."""
        return hub.join(self.run_id, self._after)

    def items(self, entries: Sequence[Entry]) -> Sequence[Event]:
        """Return the events among a subscription's entries.

        The read position then advances.
        """
        events = [entry for entry in entries if isinstance(entry, Event)]
        self._go_on(events)
        return events

    def _go_on(self, events: Sequence[Event]) -> None:
        if events:
            self._after = events[-1].id


class TextSource:
    """The events and the live text of a run, as a source.

    Args:
        after: The id of the stream item after which the source begins. None: it begins with the
            first item.
    """

    def __init__(self, runs: AuthorizedClient, run_id: str, after: str | None) -> None:
        self.run_id = run_id
        self._runs, self._reader = runs, StreamReader.after(after)

    def read(self) -> StreamRead[StreamItem]:
        """Return the stored items after the read position.

        The read position then advances. For errors see ``read_events``.
        """
        ended = self._runs.get(self.run_id).status.ended
        return StreamRead(self._runs.read_stream(self.run_id, self._reader), ended)

    def join(self, hub: EventHub) -> Subscriber:
        """Subscribe to the new events and live text after the read position."""
        return hub.join(self.run_id, self._reader.event, self._reader.text)

    def items(self, entries: Sequence[Entry]) -> Sequence[StreamItem]:
        """Return a subscription's entries as stream items.

        The read position then advances.
        """
        return list(self._reader.items(entries))


async def watch(
    source: Source[T],
    hub: EventHub,
    first: StreamRead[T],
    follow: bool,
    seconds: float,
    pause: float | None = None,
) -> AsyncGenerator[Sequence[T] | StreamEnd]:
    """Yield batches of a run's stored items, then of new items as they come.

    If nothing follows, a StreamEnd is yielded last. The generator ends without a StreamEnd if
    ``seconds`` are over, if the hub is closed, or if an entry cannot be read. The client then asks
    again from the last item on. While the state server is unavailable, the read is repeated.

    Args:
        first: The result of the first read of the source.
        follow: Whether to wait for new items.
        seconds: Maximum duration of the stream.
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
    """Yield batches of a run's new items from the event hub.

    The generator ends after an event that ends the run, at the time ``until``, when the hub ends
    the subscription, or after IDLE_SECONDS without items. Then the caller reads the run again.

    Args:
        until: The latest end, in the seconds of ``time.monotonic()``.
        pause: Seconds without new items after which an empty batch is yielded. None: never.
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
