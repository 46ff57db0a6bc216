"""The events and the stream of a run over HTTP, and the methods that wait for a run."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from perdure.worker.client.remote.connection import path_of
from perdure.worker.client.remote.problems import raise_problem
from perdure.worker.client.remote.runs import RemoteReads
from perdure.worker.client.results import RunResults, rests, still
from perdure.worker.domain.event import LAST, Event
from perdure.worker.domain.run import Run
from perdure.worker.domain.stream import StreamItem, StreamReader
from perdure.worker.errors import RunNotFound
from perdure.worker.operations import validation
from perdure.worker.settings import current
from perdure.worker.store import StoreUnavailable

NO_CONTENT = 204
#: Seconds without a byte after which a connection is closed. The server sends a comment every 15.
SILENCE_SECONDS = 40.0
#: Seconds for which an unreachable server is retried. A restart takes less.
PATIENCE_SECONDS = 60.0
#: Shortest and longest wait before the next connection, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
#: Seconds after which the HTTP API ends a stream.
LONGEST_SECONDS = 900.0
#: Maximum bytes of one event, far above the default limit of a round.
MOST_BYTES = 64 * 1024 * 1024
#: Maximum events in one page.
PAGE = 1000


T = TypeVar("T", Event, StreamItem)


@dataclass(frozen=True)
class StreamRoute(Generic[T]):
    """A stream of a run in the HTTP API.

    Attributes:
        name: the last segment of the stream's path.
        read: converts the JSON data of an item to the item.
    """

    name: str
    read: Callable[[dict[str, Any]], T]


EVENTS, STREAM = StreamRoute("events", Event.from_dict), StreamRoute("stream", StreamItem.from_dict)


class RemoteEvents(RemoteReads, RunResults):
    """The methods of RemoteClient that read events or wait for a run."""

    def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:
        return self._run_when(run_id, rests, validation.timeout(timeout))

    def _find_flows(self) -> None:
        from perdure.worker.flow_registration import find_flows  # Loads flows: reads need none.

        find_flows(current())

    def _run_when(
        self, run_id: str, is_awaited: Callable[[Run], bool], timeout: float | None
    ) -> Run:
        until = None if timeout is None else time.monotonic() + timeout
        after: str | None = None
        while True:
            run = self.get(run_id)
            if is_awaited(run):
                return run
            if until is not None and time.monotonic() >= until:
                raise still(run, timeout or 0.0, self.why(run_id))
            # Events from now on are not older than ``updated_at``. Both are the server's times.
            after = after or str(max(0, int(run.updated_at.timestamp() * 1000) - 1))
            for event in self._following(EVENTS, run_id, after, until):
                after = event.id
                if event.type in (*LAST, "interrupted"):
                    break

    def events(self, run_id: str, after: str | None = None, follow: bool = True) -> Iterator[Event]:
        validation.after(after)
        validation.flag(follow, "follow")
        self.get(run_id)
        if not follow:
            return self._listed(run_id, after)
        return self._following(EVENTS, run_id, after, None)

    def stream(
        self, run_id: str, after: str | None = None, follow: bool = True
    ) -> Iterator[StreamItem]:
        validation.flag(follow, "follow")
        StreamReader.after(after)
        self.get(run_id)
        return self._following(STREAM, run_id, after, None, follow)

    def latest_events(
        self, run_id: str, limit: int = 100, before: str | None = None
    ) -> list[Event]:
        validation.limit(limit)
        validation.after(before, "before")
        found: list[Event] = []
        more = True
        while more and len(found) < limit:
            told = self._ask(
                path_of(run_id, "events"),
                latest="true",
                before=before,
                limit=min(PAGE, limit - len(found)),
            )
            found = [*map(Event.from_dict, told["events"]), *found]
            before, more = found[0].id if found else before, told["more"]
        return found

    def _listed(self, run_id: str, after: str | None) -> Iterator[Event]:
        more = True
        while more:
            told = self._ask(path_of(run_id, "events"), after=after, limit=PAGE)
            for each in told["events"]:
                after = each["id"]
                yield Event.from_dict(each)
            more = told["more"]

    def _following(
        self,
        route: StreamRoute[T],
        run_id: str,
        after: str | None,
        until: float | None,
        follow: bool = True,
    ) -> Iterator[T]:
        """Yield the items of a run's stream, and reconnect when a connection ends.

        The iterator ends when the run has ended or was deleted.

        Args:
            after: Id of an item. Only later items are yielded. None: begin with the first item.
            until: A time (monotonic seconds) at which the iterator ends earlier. None: no such
                time.
            follow: If False, the iterator ends after the stored items.

        Raises:
            StoreUnavailable: The HTTP API was unreachable for ``PATIENCE_SECONDS``.
        """
        away, pause = None, FIRST_PAUSE
        while until is None or time.monotonic() < until:
            try:
                for event in self._stream(route, run_id, after, until, follow):
                    if event is None:
                        return
                    after, away, pause = event.id, None, FIRST_PAUSE
                    yield event
                away = None
            except RunNotFound:  # it was deleted meanwhile
                return
            except StoreUnavailable:
                away = away or time.monotonic()
                if time.monotonic() - away > PATIENCE_SECONDS:
                    raise
            wait = pause * (0.5 + random.random())
            time.sleep(wait if until is None else max(0.0, min(wait, until - time.monotonic())))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _stream(
        self,
        route: StreamRoute[T],
        run_id: str,
        after: str | None,
        until: float | None,
        follow: bool,
    ) -> Iterator[T | None]:
        """Yield the items of one HTTP stream, then None.

        None means that there are no more items. If the server closes the stream early, for example
        when it shuts down, None is not yielded. The arguments are those of ``_following``.

        Raises:
            StoreUnavailable: The HTTP API is unreachable, or the connection was cut.
        """
        left = (
            LONGEST_SECONDS
            if until is None
            else min(LONGEST_SECONDS, max(0.01, until - time.monotonic()))
        )
        try:
            with self._http.sse(
                f"{self._address.api}{path_of(run_id, route.name)}",
                params={"seconds": left, "follow": str(follow).lower()},
                headers={"Last-Event-ID": after} if after is not None else {},
                timeout=self._library.Timeout(
                    self._timeout, read=min(SILENCE_SECONDS, left + self._timeout)
                ),
                max_event_size=MOST_BYTES,
            ) as source:
                if source.response.status_code == NO_CONTENT:
                    yield None
                    return
                if not source.response.is_success:
                    source.response.read()
                    raise_problem(source.response, self._address.shown)
                for told in source:
                    yield None if told.event == "end" else route.read(json.loads(told.data))
        except self._library.TransportError as error:
            raise self._away(error) from error
