"""The live stream of a run's events.

First come the stored events after a given one, then each new event, until the run has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from starlette.concurrency import run_in_threadpool

from perdure.worker.domain.event import LAST, Event
from perdure.worker.errors import DamagedRun, RunNotFound
from perdure.worker.store import StoreUnavailable
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.event_hub import EventHub

#: Events that are read and sent at once.
BATCH = 200
#: Seconds without an event after which the stream checks that the run still exists.
IDLE_SECONDS = 15.0
#: Seconds between two attempts while the state server is unavailable.
AWAY_SECONDS = 0.5


class StreamEnd(Enum):
    """Why no further event follows."""

    ENDED = "ended"
    GONE = "gone"
    CAUGHT_UP = "caught-up"


@dataclass(frozen=True)
class StreamRead:
    """The next events of a run.

    Attributes:
        events: Empty if there are none yet.
        ended: Whether the run has ended. Then further events follow only after a resume or a retry.
    """

    events: Sequence[Event]
    ended: bool

    @property
    def is_all(self) -> bool:
        """Whether a live stream has read all stored events of a run that is still active.

        The stream then switches from polling to the event hub. A batch that is not full counts as
        all, because a busy run has new events at every read.
        """
        return (
            not self.ended
            and len(self.events) < BATCH
            and not (self.events and self.events[-1].type in LAST)
        )


def read_events(
    runs: AuthorizedClient, run_id: str, after: str | None, most: int = BATCH
) -> StreamRead:
    """Return a run's stored events after the event ``after``, and whether the run has ended.

    An event that cannot be read ends the list.

    Raises:
        DamagedRun: The next event or the run cannot be read.
        RunNotFound: The run does not exist.
        StoreUnavailable: The state server does not answer.
    """
    # Read first: if the run has ended by now, all of its events are stored.
    ended = runs.get(run_id).status.ended
    events: list[Event] = []
    try:
        for event in islice(runs.events(run_id, after), most):
            events.append(event)
    except DamagedRun:
        if not events:
            raise
    return StreamRead(events, ended)


async def watch(
    runs: AuthorizedClient,
    hub: EventHub,
    run_id: str,
    after: str | None,
    first: StreamRead,
    follow: bool,
    seconds: float,
) -> AsyncGenerator[Sequence[Event] | StreamEnd]:
    """Yield the stored events of a run in batches, then its new events as they happen.

    The last item is a StreamEnd if no further event follows. Without a StreamEnd, the stream ended
    for another reason: the time is up, the hub is closed, or an event cannot be read. The client
    then asks again from the last event on.

    Args:
        first: The first read of the events after ``after``.
        follow: Whether to wait for new events.
        seconds: Maximum duration.
    """
    until = time.monotonic() + seconds
    read: StreamRead | None = first
    while True:
        if read is not None and read.events:
            yield read.events
            after = read.events[-1].id
        elif read is not None and (read.ended or not follow):
            yield StreamEnd.ENDED if read.ended else StreamEnd.CAUGHT_UP
            return
        if read is not None and follow and read.is_all:
            async with aclosing(_live_events(hub, run_id, after, until)) as live_events:
                async for events in live_events:
                    yield events
                    after = events[-1].id
        if time.monotonic() >= until or hub.closed:
            return
        try:
            read = await run_in_threadpool(read_events, runs, run_id, after)
        except RunNotFound:
            yield StreamEnd.GONE
            return
        except DamagedRun:
            return
        except StoreUnavailable:
            read = None
            await asyncio.sleep(AWAY_SECONDS)


async def _live_events(
    hub: EventHub, run_id: str, after: str | None, until: float
) -> AsyncGenerator[Sequence[Event]]:
    """Yield the new events of a run in batches, as the event hub delivers them.

    It ends when the run seems to have ended, or when no event has come for IDLE_SECONDS. Then the
    caller reads the run again.
    """
    subscriber = hub.join(run_id, after)
    try:
        while subscriber.over is None and (seconds_left := until - time.monotonic()) > 0:
            events = await subscriber.heard(min(seconds_left, IDLE_SECONDS))
            if events:
                yield events
            if not events or events[-1].type in LAST:
                return
    finally:
        hub.leave(subscriber)
