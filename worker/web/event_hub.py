"""The event hub, which delivers runs' events to their subscribers.

One blocking read on the state server serves all subscribers, however many there are.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple

from perdure.worker.client import Client
from perdure.worker.client.connection import session_of
from perdure.worker.domain.event import Event, position_of
from perdure.worker.domain.stream import TextEntry
from perdure.worker.operations.event_batches import EventBatch, hear
from perdure.worker.store import StoreUnavailable

logger = logging.getLogger("perdure.web")

#: Duration of one blocked read in ms. A new subscription takes effect with the next read.
BLOCK_MS = 250
#: Seconds between two attempts while the state server is unavailable. Each attempt takes about 2 s
#: itself.
AWAY_SECONDS = 0.5
#: Seconds that close waits for the read in progress. The read takes longer only while the state
#: server is unavailable.
CLOSE_SECONDS = 1.0
#: Maximum number of events buffered for one subscriber. A subscriber that does not take them in
#: time has to read the run's events itself.
MOST_WAITING = 256

Position = tuple[int, int]
Entry = Event | TextEntry


class ReadAfter(NamedTuple):
    """The positions after which a run is read.

    Attributes:
        event: Position of an event.
        text: Position of an entry of the live text. None: the live text is not read.
    """

    event: Position
    text: Position | None

    def covers(self, subscriber: Subscriber) -> bool:
        """Return whether a read after these positions has all entries that a subscriber needs."""
        wanted = subscriber.text_position
        return self.event <= subscriber.position and (
            wanted is None or (self.text is not None and self.text <= wanted)
        )


class Subscriber:
    """A subscription to the events of one run.

    ``EventHub.join`` makes it. A subscriber must be used in the event loop in which it was made.

    Attributes:
        over: The reason why the subscription has ended. ``behind``: the subscriber was too slow.
            ``damaged``: the next event cannot be read. ``closed``: the hub ended all subscriptions.
            None as long as the subscription continues.
    """

    def __init__(self, run_id: str, after: str | None, text_after: str | None = None) -> None:
        self.run_id = run_id
        #: Position of the event after which this subscriber gets events. Only the hub's thread
        #: changes it.
        self.position = position_of(after or "0")
        #: The same for the run's live text. None: the subscriber does not want it.
        self.text_position = None if text_after is None else position_of(text_after)
        self.over: Literal["behind", "damaged", "closed"] | None = None
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._lock = threading.Lock()
        self._waiting: deque[Entry] = deque()

    async def heard(self, seconds: float) -> list[Event]:
        """Wait for new events of the run, and return them.

        The oldest event comes first. Live text ends the wait too, but is dropped.

        Returns:
            An empty list if no event came within ``seconds``, if only live text came, or at once if
            the subscription has ended and its buffer is empty.
        """
        return [entry for entry in await self.entries(seconds) if isinstance(entry, Event)]

    async def entries(self, seconds: float) -> list[Entry]:
        """Wait for new events and live text, and return them.

        The oldest entry comes first.

        Returns:
            An empty list if nothing came within ``seconds``, or at once if the subscription has
            ended and its buffer is empty.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return []
        with self._lock:
            entries = list(self._waiting)
            self._waiting.clear()
            if self.over is None:
                self._woken.clear()
        return entries

    def deliver(
        self, events: Sequence[Entry], over: Literal["behind", "damaged", "closed"] | None = None
    ) -> None:
        """Put new events into the subscriber's buffer, and wake the subscriber.

        Only the hub calls this. If the subscription has already ended, nothing happens. If the
        buffer would overflow, it is emptied and the subscription ends, by default as ``behind``.

        Args:
            events: New events and live text of the run, oldest first.
            over: The reason why the subscription ends after ``events``. None: it continues.

        Raises:
            RuntimeError: The subscriber's event loop is closed.
        """
        with self._lock:
            if self.over is not None:
                return
            if len(self._waiting) + len(events) > MOST_WAITING:
                self._waiting.clear()
                over = over or "behind"
            else:
                self._waiting.extend(events)
            self.over = over
        self._loop.call_soon_threadsafe(self._woken.set)


class EventHub:
    """A distributor of runs' events to their subscribers.

    One thread reads for all subscribers. The thread runs only while there are subscribers.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._subscribers: dict[str, list[Subscriber]] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether the event hub is closed. A new subscription to it ends at once."""
        return self._closed.is_set()

    def join(self, run_id: str, after: str | None, text_after: str | None = None) -> Subscriber:
        """Subscribe to a run's events.

        The subscriber misses no event and gets none twice. If the hub is closed, a subscriber is
        returned whose subscription has ended (``over`` is ``closed``).

        Args:
            after: The id of the event after which the subscription begins. None: it begins with
                the first event.
            text_after: The id of the entry of the run's live text after which the live text is
                delivered too. None: only events are delivered.
        """
        subscriber = Subscriber(run_id, after, text_after)
        with self._lock:
            if self._closed.is_set():
                subscriber.deliver((), "closed")
                return subscriber
            self._subscribers.setdefault(run_id, []).append(subscriber)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._listen, name="perdure-hub", daemon=True
                )
                self._thread.start()
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """End a subscription to the events of a run. A repeated call has no effect."""
        with self._lock:
            others = [
                other
                for other in self._subscribers.get(subscriber.run_id, ())
                if other is not subscriber
            ]
            if others:
                self._subscribers[subscriber.run_id] = others
            else:
                self._subscribers.pop(subscriber.run_id, None)

    def close(self) -> None:
        """Close the hub and end all subscriptions.

        Each later subscription ends at once. Any thread may call this, more than once. The call
        waits up to ``CLOSE_SECONDS`` for the read in progress.
        """
        self._closed.set()
        self._end_all()
        thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    def _listen(self) -> None:
        away = False
        try:
            while (positions := self._positions()) is not None:
                try:
                    batches = hear(
                        session_of(self._client),
                        {run_id: _id(place.event) for run_id, place in positions.items()},
                        BLOCK_MS,
                        {
                            run_id: _id(place.text)
                            for run_id, place in positions.items()
                            if place.text is not None
                        },
                    )
                except StoreUnavailable as error:
                    if not away:
                        logger.warning("event streams are delayed and stay connected: %s", error)
                    away = True
                    self._closed.wait(AWAY_SECONDS)
                    continue
                away = False
                for run_id, batch in batches.items():
                    self._distribute(run_id, positions[run_id], batch)
        except BaseException:
            with self._lock:
                self._thread = None
            # Closing the streams is better than leaving them silent: the clients reconnect, and the
            # first new subscription starts another thread.
            self._end_all()
            # After close(), the error is expected: the client may be closed during the read.
            if not self.closed:
                raise

    def _positions(self) -> dict[str, ReadAfter] | None:
        """Return the positions after which to read each watched run, by the run's id.

        They are the earliest positions that any subscriber of the run needs.

        Returns:
            None if there are no subscribers. The thread then ends.
        """
        with self._lock:
            if not self._subscribers:
                self._thread = None
                return None
            return {
                run_id: ReadAfter(
                    min(subscriber.position for subscriber in subscribers),
                    min(
                        (each.text_position for each in subscribers if each.text_position),
                        default=None,
                    ),
                )
                for run_id, subscribers in self._subscribers.items()
            }

    def _distribute(self, run_id: str, start: ReadAfter, batch: EventBatch) -> None:
        """Deliver a batch of a run's events and live text to the run's subscribers.

        A subscriber that joined during the read and needs entries before ``start`` is skipped. The
        next read includes these entries.

        Args:
            start: The positions after which the batch was read.
        """
        with self._lock:
            subscribers = [
                subscriber
                for subscriber in self._subscribers.get(run_id, ())
                if start.covers(subscriber)
            ]
        events = [(position_of(event.id), event) for event in batch.events]
        texts = [(position_of(text.id), text) for text in batch.texts]
        for subscriber in subscribers:
            new: list[Entry] = [each for place, each in events if place > subscriber.position]
            if new:
                subscriber.position = events[-1][0]
            if texts and (heard := subscriber.text_position) is not None:
                new += [each for place, each in texts if place > heard]
                subscriber.text_position = max(heard, texts[-1][0])
            if new or batch.damaged:
                self._deliver(subscriber, new, batch.damaged)

    def _deliver(self, subscriber: Subscriber, events: Sequence[Entry], damaged: bool) -> None:
        try:
            subscriber.deliver(events, "damaged" if damaged else None)
        except RuntimeError:
            # Its event loop is closed, so the subscriber cannot leave by itself.
            subscriber.over = "closed"
        if subscriber.over is not None:
            self.leave(subscriber)

    def _end_all(self) -> None:
        with self._lock:
            subscribers = [
                subscriber
                for run_subscribers in self._subscribers.values()
                for subscriber in run_subscribers
            ]
            self._subscribers.clear()
        for subscriber in subscribers:
            try:
                subscriber.deliver((), "closed")
            except RuntimeError:  # its event loop is closed
                continue


def _id(position: Position) -> str:
    ms, number = position
    return f"{ms}-{number}"
