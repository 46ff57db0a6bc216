"""Hub: hears what happens to the runs that are watched, for all who watch through this process, with one blocked read."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Literal

from worker.client import Client
from worker.client.hearing import hear
from worker.event import Event
from worker.store import StoreUnavailable

logger = logging.getLogger("holdfast.web")

#: How long one read waits (ms). Who begins to watch another run is heard of with the next one.
BLOCK = 250
#: Seconds between two tries while the state server is away; each try takes about two by itself.
AWAY_SECONDS = 0.5
#: Seconds that closing waits for the read under way, which takes longer only while the state server is away.
CLOSE_SECONDS = 1.0
#: Events kept for one watcher who does not take them. Beyond that it has fallen behind, and reads the run's events for itself.
MOST_WAITING = 256

Place = tuple[int, int]


class Watcher:
    """One who watches a run. Made by ``Hub.join``; to be used in the event loop it was made in.

    Attributes:
        over: why nothing more is heard: it fell ``behind``, what comes next is ``damaged``, the hub is ``closed``; None: it goes on.
    """

    def __init__(self, run_id: str, after: str | None) -> None:
        self.run_id = run_id
        #: The last event that was told, or that need not be. Only the hub's thread moves it.
        self.place = _place(after or "0")
        self.over: Literal["behind", "damaged", "closed"] | None = None
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._lock = threading.Lock()
        self._waiting: deque[Event] = deque()

    async def heard(self, seconds: float) -> list[Event]:
        """What has happened since, oldest first; none when nothing has for so many seconds, or it is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return []
        with self._lock:
            events = list(self._waiting)
            self._waiting.clear()
            if self.over is None:
                self._woken.clear()
        return events

    def tell(self, events: Sequence[Event], over: Literal["behind", "damaged", "closed"] | None = None) -> None:
        """The hub's: what happened, and whether that is all. What does not fit is not kept: whoever falls behind reads again."""
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


class Hub:
    """Tells the watchers of runs what happens to them. A thread of its own reads for all of them, while there are any."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._watchers: dict[str, list[Watcher]] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether nothing can be watched any more."""
        return self._closed.is_set()

    def join(self, run_id: str, after: str | None) -> Watcher:
        """Watch a run, from just behind the event ``after``: from there on nothing is missed and nothing comes twice."""
        watcher = Watcher(run_id, after)
        with self._lock:
            if self._closed.is_set():
                watcher.tell((), "closed")
                return watcher
            self._watchers.setdefault(run_id, []).append(watcher)
            if self._thread is None:
                self._thread = threading.Thread(target=self._listen, name="holdfast-hub", daemon=True)
                self._thread.start()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Watch no more; done twice, it changes nothing."""
        with self._lock:
            left = [other for other in self._watchers.get(watcher.run_id, ()) if other is not watcher]
            if left:
                self._watchers[watcher.run_id] = left
            else:
                self._watchers.pop(watcher.run_id, None)

    def close(self) -> None:
        """End all watching, for good. May be called from any thread, and again; waits a moment for the read that is under way."""
        self._closed.set()
        self._end_all()
        thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    def _listen(self) -> None:
        away = False
        try:
            while (places := self._places()) is not None:
                try:
                    heard = hear(self._client, {run_id: f"{ms}-{number}" for run_id, (ms, number) in places.items()}, BLOCK)
                except StoreUnavailable as error:
                    if not away:
                        logger.warning("runs are watched, and %s; those who watch stay connected", error)
                    away = True
                    self._closed.wait(AWAY_SECONDS)
                    continue
                away = False
                for run_id, what in heard.items():
                    self._tell(run_id, places[run_id], what.events, what.damaged)
        except BaseException:
            with self._lock:
                self._thread = None
            self._end_all()  # better cut than deaf: they come again, and another thread listens
            if not self.closed:  # the client may have been closed under the read
                raise

    def _places(self) -> dict[str, Place] | None:
        """From where each run is to be read: where the one who has heard least of it is; None where nobody watches."""
        with self._lock:
            if not self._watchers:
                self._thread = None
                return None
            return {run_id: min(watcher.place for watcher in watchers) for run_id, watchers in self._watchers.items()}

    def _tell(self, run_id: str, start: Place, events: Sequence[Event], damaged: bool) -> None:
        """What was read from ``start`` on, to those whom it misses nothing of: not to who joined meanwhile, from an earlier place."""
        with self._lock:
            watchers = [watcher for watcher in self._watchers.get(run_id, ()) if start <= watcher.place]
        placed = [(_place(event.id), event) for event in events]
        for watcher in watchers:
            new = [event for place, event in placed if place > watcher.place]
            if new:
                watcher.place = placed[-1][0]
            if new or damaged:
                self._hand(watcher, new, damaged)

    def _hand(self, watcher: Watcher, events: Sequence[Event], damaged: bool) -> None:
        try:
            watcher.tell(events, "damaged" if damaged else None)
        except RuntimeError:  # its event loop is closed, and nobody is there to leave
            watcher.over = "closed"
        if watcher.over is not None:
            self.leave(watcher)

    def _end_all(self) -> None:
        with self._lock:
            watchers = [watcher for watching in self._watchers.values() for watcher in watching]
            self._watchers.clear()
        for watcher in watchers:
            try:
                watcher.tell((), "closed")
            except RuntimeError:  # its event loop is closed
                continue


def _place(event_id: str) -> Place:
    ms, _, number = event_id.partition("-")
    return int(ms), int(number or 0)
