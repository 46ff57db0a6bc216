"""Follow a run: look at it again and again, and show what is new, until it has ended or waits for a person."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from worker.cli.exits import DONE, RUN_ERRORED, RUN_INTERRUPTED, RUN_STOPPED, RUN_UNFINISHED

if TYPE_CHECKING:
    from worker.client import Client
    from worker.event import Event
    from worker.run import Run

#: Seconds between two looks.
LOOK_SECONDS = 0.15
#: Seconds that a server may be away before watching is given up; the run does not mind either way.
PATIENCE_SECONDS = 60.0


class View(Protocol):
    """Where a run is shown."""

    def show(self, run: Run, events: Sequence[Event]) -> None:
        """The run as it is now, and what happened since the last time."""

    def note(self, text: str) -> None:
        """Something to say beside the run."""

    def away(self, since: float) -> None:
        """The server has not answered since that time (monotonic)."""

    def end(self, run: Run) -> None:
        """The last look has been shown."""

    def close(self) -> None:
        """Nothing more is shown; called in any case."""


def follow(client: Client, run_id: str, view: View, tick: Callable[[Run, Sequence[Event]], None] | None = None) -> Run:
    """Show the run until it has ended or is interrupted, and return it as it is then.

    Args:
        tick: called after each look, with what was new.

    Raises:
        RunNotFound; StoreUnavailable: the server stayed away for longer than PATIENCE_SECONDS.
    """
    from worker.run import RunStatus
    from worker.store import AccessDenied, StoreUnavailable

    after: str | None = None
    away: float | None = None
    while True:
        looked = time.monotonic()
        try:
            # In this order: of a run that had ended when it was read, all events are there.
            run = client.get(run_id)
            events = list(client.events(run_id, after, follow=False))
        except AccessDenied:
            raise
        except StoreUnavailable:
            away = looked if away is None else away
            if time.monotonic() - away > PATIENCE_SECONDS:
                raise
            view.away(away)
            time.sleep(LOOK_SECONDS)
            continue
        away = None
        after = events[-1].id if events else after
        view.show(run, events)
        if run.status.ended or run.status is RunStatus.INTERRUPTED:
            view.end(run)
            return run
        if tick is not None:
            tick(run, events)
        time.sleep(LOOK_SECONDS)


def end_code(run: Run) -> int:
    """The exit code that tells how the run ended."""
    if run.status.value == "completed" and not run.finished:
        return RUN_UNFINISHED
    return {"errored": RUN_ERRORED, "stopped": RUN_STOPPED, "interrupted": RUN_INTERRUPTED}.get(run.status.value, DONE)
