"""Operations on the events of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perdure.worker.domain.event import LAST, Event, is_trimmed
from perdure.worker.domain.record import FORKED, KEEP_EVENTS
from perdure.worker.domain.run import status_of
from perdure.worker.domain.token import Scope
from perdure.worker.operations.arguments import anything
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session

if TYPE_CHECKING:
    from perdure.worker.domain.stream import StreamItem, StreamReader

#: Seconds of one blocking read for new events, after which the caller's timeout is checked again.
EVENT_BLOCK = 1.0


@operation(Http("GET", "/runs/{run_id}/events"), scope=Scope.READ, owner=Owner.RUN)
def latest_events(
    session: Session, run_id: str, limit: int = 100, before: str | None = None
) -> list[Event]:
    """Return the run's last events, oldest first.

    Args:
        limit: Maximum number of events.
        before: Id of an event. Only events before it are returned. None means no such limit.

    Raises:
        RunNotFound: No run has this id.
    """
    session.record(run_id)
    return [Event.of(*entry) for entry in session.store.events.latest(run_id, limit, before)]


@operation(Http("GET", "/runs/{run_id}/events"), scope=Scope.READ, owner=Owner.RUN)
def events(
    session: Session, run_id: str, after: str | None = None, follow: bool = True
) -> Iterator[Event]:
    """Return the run's events, oldest first.

    If events after ``after`` are gone (``keep_events`` of the flow), the first event has the
    type ``trimmed``.

    Args:
        after: Id of an event. Only events after it are returned. None means all events.
        follow: If True, the iterator waits for further events, and ends when the run has ended
            or was deleted. If False, it ends after the stored events.

    Raises:
        RunNotFound: No run has this id.
    """
    fields = session.record(run_id).fields
    # The first commit of a run records whether its flow keeps only the newest events.
    is_new = fields.get("step") == "0" or FORKED in fields
    may_be_trimmed = KEEP_EVENTS in fields or (follow and is_new)
    return _events(session, run_id, after, follow, may_be_trimmed)


def _events(
    session: Session, run_id: str, after: str | None, follow: bool, may_be_trimmed: bool
) -> Iterator[Event]:
    ended, last = False, after
    while True:
        block = None if ended or not follow else round(EVENT_BLOCK * 1000)
        if may_be_trimmed and last is not None:
            if block is not None:
                session.store.events.read(run_id, last, block, count=1)
            entries, oldest = session.store.events.read_with_oldest(run_id, last)
        else:
            entries, oldest = session.store.events.read(run_id, last, block), None
        before = last
        for number, (last, entry) in enumerate(entries):
            event = Event.of(last, entry)
            if number == 0 and is_trimmed(before, event, oldest):
                yield Event.trimmed(event)
            yield event
            ended = event.type in LAST
        if entries:
            continue
        if not follow or ended:
            return
        fields = session.store.reads.fields(run_id)
        ended = fields is None or status_of(fields).ended


@operation(
    Http("GET", "/runs/{run_id}/stream"),
    scope=Scope.READ,
    owner=Owner.RUN,
    # Here it is the id of an item, which StreamReader parses.
    checks={"after": anything},
)
def stream(
    session: Session, run_id: str, after: str | None = None, follow: bool = True
) -> Iterator[StreamItem]:
    """Return the run's events and its live text.

    Live text is the reply of a model so far, or text that a node shows with ``context.stream``.
    A program that lost its connection continues with ``after``. An item of the type ``trimmed``
    says that events or text before it are gone.

    Args:
        after: Id of the last item that was read. None means from the beginning.
        follow: As for ``events``.

    Raises:
        RunNotFound: No run has this id.
        InvalidInput: ``after`` is not the id of an item.
    """
    # Imported here, as for trees and transcripts: a command reads only one of these.
    from perdure.worker.domain.stream import StreamReader

    reader = StreamReader.after(after)
    session.record(run_id)
    return _stream(session, run_id, reader, follow)


def _stream(
    session: Session, run_id: str, reader: StreamReader, follow: bool
) -> Iterator[StreamItem]:
    from perdure.worker.operations.event_batches import read_stream

    ended = False
    while True:
        block = None if ended or not follow else round(EVENT_BLOCK * 1000)
        items = read_stream(session, run_id, reader, block)
        for item in items:
            yield item
            ended = item.type in LAST
        if items:
            continue
        if not follow or ended:
            return
        fields = session.store.reads.fields(run_id)
        ended = fields is None or status_of(fields).ended
