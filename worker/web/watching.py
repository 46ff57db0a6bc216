"""Watching: a run's events from one on, first those that there are, then each as it happens, until the run has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from starlette.concurrency import run_in_threadpool

from worker.errors import DamagedRun, RunNotFound
from worker.event import LAST, Event
from worker.store import StoreUnavailable
from worker.web.access import Permitted
from worker.web.hub import Hub

#: Events read, and sent, at once.
BATCH = 200
#: Seconds without an event after which it is looked whether the run is still there.
IDLE_SECONDS = 15.0
#: Seconds between two tries while the state server is away.
AWAY_SECONDS = 0.5


class Ending(Enum):
    """Why no event follows."""

    ENDED = "ended"
    GONE = "gone"
    CAUGHT_UP = "caught-up"


@dataclass(frozen=True)
class Look:
    """The next events of a run, and, where there are none, whether any can follow unless somebody resumes or retries it."""

    events: Sequence[Event]
    ended: bool

    @property
    def is_all(self) -> bool:
        """Whether the rest is best heard: there was little (with a busy run, some events are new at every look), and it goes on."""
        return not self.ended and len(self.events) < BATCH and not (self.events and self.events[-1].type in LAST)


def look(runs: Permitted, run_id: str, after: str | None, most: int = BATCH) -> Look:
    """A look at a run's events behind one of them; those before the first that does not read.

    Raises:
        DamagedRun: the next event does not read, or the run. RunNotFound, StoreUnavailable.
    """
    ended = runs.get(run_id).status.ended  # first: of a run that had ended when it was read, all events are there
    found: list[Event] = []
    try:
        for event in islice(runs.events(run_id, after), most):
            found.append(event)
    except DamagedRun:
        if not found:
            raise
    return Look(found, ended)


async def watch(
    runs: Permitted, hub: Hub, run_id: str, after: str | None, first: Look, follow: bool, seconds: float
) -> AsyncGenerator[Sequence[Event] | Ending]:
    """What happens to a run, some events at a time.

    The last that comes is an Ending, where no event follows. Where none comes, watching is over for another reason (the time is
    up, the hub is closed, an event does not read), and whoever wants more asks again, from the last event on.

    Args:
        first: what was seen of it behind ``after``.
        follow: whether to wait for what has not happened yet.
        seconds: how long to watch, at most.
    """
    until = time.monotonic() + seconds
    seen: Look | None = first
    while True:
        if seen is not None and seen.events:
            yield seen.events
            after = seen.events[-1].id
        elif seen is not None and (seen.ended or not follow):
            yield Ending.ENDED if seen.ended else Ending.CAUGHT_UP
            return
        if seen is not None and follow and seen.is_all:
            async with aclosing(_heard(hub, run_id, after, until)) as heard:
                async for events in heard:
                    yield events
                    after = events[-1].id
        if time.monotonic() >= until or hub.closed:
            return
        try:
            seen = await run_in_threadpool(look, runs, run_id, after)
        except RunNotFound:
            yield Ending.GONE
            return
        except DamagedRun:
            return
        except StoreUnavailable:
            seen = None
            await asyncio.sleep(AWAY_SECONDS)


async def _heard(hub: Hub, run_id: str, after: str | None, until: float) -> AsyncGenerator[Sequence[Event]]:
    """What the hub tells, until the run seems to have ended or nothing has happened for a while, and it is time for a look."""
    watcher = hub.join(run_id, after)
    try:
        while watcher.over is None and (left := until - time.monotonic()) > 0:
            events = await watcher.heard(min(left, IDLE_SECONDS))
            if events:
                yield events
            if not events or events[-1].type in LAST:
                return
    finally:
        hub.leave(watcher)
