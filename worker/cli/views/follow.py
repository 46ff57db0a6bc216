"""The loop that polls a run and shows its new events.

It ends when the run ends or is interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING, Protocol

from perdure.worker.cli.exit_codes import (
    DONE,
    RUN_ERRORED,
    RUN_INTERRUPTED,
    RUN_STOPPED,
    RUN_UNFINISHED,
)

if TYPE_CHECKING:
    from perdure.worker.client.read_api import ReadApi
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.interrupt import PendingInterrupt
    from perdure.worker.domain.run import Run
    from perdure.worker.domain.stream import StreamItem

#: Seconds between two polls.
LOOK_SECONDS = 0.15
#: Seconds between two queries for questions of runs below the followed one.
BELOW_SECONDS = 2.0
#: Seconds without an answer of the server before following ends with its error. The run itself is
#: not affected.
PATIENCE_SECONDS = 60.0


class View(Protocol):
    """A display on which ``follow`` shows a run."""

    @property
    def shows_text(self) -> bool:
        """Whether the view shows the live text of the round in flight."""

    def show_text(self, item: StreamItem) -> None:
        """Show an item of the run's stream: live text, for example.

        Another thread than that of the other methods calls this, and only if ``shows_text``.
        """

    def show(self, run: Run, events: Sequence[Event]) -> None:
        """Show the run's current state, and its events since the last call."""

    def note(self, text: str) -> None:
        """Show a message that is not an event."""

    def ask_below(self, waiting: PendingInterrupt) -> None:
        """Show that a run below the followed run waits for a person, and how to answer it."""

    def away(self, since: float) -> None:
        """Show that the server has not answered since the monotonic time ``since`` (seconds)."""

    def end(self, run: Run) -> None:
        """Show how the followed run ended, or the question that it asks."""

    def close(self) -> None:
        """Stop the display and release the terminal. A second call does nothing.

        The caller of ``follow`` must call this, also after an error.
        """


def follow(
    client: ReadApi,
    run_id: str,
    view: View,
    tick: Callable[[Run, Sequence[Event]], None] | None = None,
) -> Run:
    """Show a run until it ends or is interrupted. Return the run as last read.

    Args:
        client: The client that reads the run.
        run_id: The run's id.
        view: The view to show the run on. It is not closed.
        tick: Called after each poll with the run and its new events, except after the last poll.

    Raises:
        RunNotFound: The run does not exist.
        AccessDenied: The server refuses the access. This is not retried.
        StoreUnavailable: The server did not answer for longer than PATIENCE_SECONDS.
    """
    with _text_for(client, run_id, view):
        return _follow(client, run_id, view, tick)


def _text_for(client: ReadApi, run_id: str, view: View) -> AbstractContextManager[object]:
    if not view.shows_text:
        return nullcontext()
    from perdure.worker.cli.views.text_in_flight import TextReader

    return closing(TextReader(client, run_id, view.show_text))


def _follow(
    client: ReadApi,
    run_id: str,
    view: View,
    tick: Callable[[Run, Sequence[Event]], None] | None,
) -> Run:
    from perdure.worker.domain.run import RunStatus
    from perdure.worker.store import AccessDenied, StoreUnavailable

    after: str | None = None
    away: float | None = None
    below = QuestionsBelow(client)
    while True:
        polled = time.monotonic()
        try:
            # In this order: if the run had ended when it was read, all its events are stored.
            run = client.get(run_id)
            events = list(client.events(run_id, after, follow=False))
            asked = below.new(run)
        except AccessDenied:
            raise
        except StoreUnavailable:
            away = polled if away is None else away
            if time.monotonic() - away > PATIENCE_SECONDS:
                raise
            view.away(away)
            time.sleep(LOOK_SECONDS)
            continue
        away = None
        after = events[-1].id if events else after
        view.show(run, events)
        for waiting in asked:
            view.ask_below(waiting)
        if run.status.ended or run.status is RunStatus.INTERRUPTED:
            view.end(run)
            return run
        if tick is not None:
            tick(run, events)
        time.sleep(LOOK_SECONDS)


class QuestionsBelow:
    """A reader of new questions of the runs below a run.

    It returns each question once. It sends a request every BELOW_SECONDS at most, and only while
    the run waits for its children.

    Args:
        client: The client that reads the questions.
    """

    def __init__(self, client: ReadApi) -> None:
        self._client = client
        self._told: set[tuple[str, str]] = set()
        self._next = 0.0

    def new(self, run: Run) -> list[PendingInterrupt]:
        """Return the questions of runs below ``run`` that were not returned before.

        The list is empty if the run does not wait for children, or if the last request is less than
        BELOW_SECONDS old.
        """
        now = time.monotonic()
        if not run.details.get("waits_for_children") or now < self._next:
            return []
        self._next = now + BELOW_SECONDS
        new = [
            waiting
            for waiting in self._client.inbox(below=run.id)
            if (waiting.run_id, waiting.id) not in self._told
        ]
        self._told |= {(waiting.run_id, waiting.id) for waiting in new}
        return new


def end_code(run: Run) -> int:
    """Return the exit code of a command that followed a run.

    The run has ended or is interrupted. The exit code is DONE only for a run that completed its
    work.
    """
    if run.status.value == "completed" and not run.finished:
        return RUN_UNFINISHED
    return {"errored": RUN_ERRORED, "stopped": RUN_STOPPED, "interrupted": RUN_INTERRUPTED}.get(
        run.status.value, DONE
    )
