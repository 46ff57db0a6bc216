"""The broker's queues with their lengths, and the wait of each queue's next run."""

from __future__ import annotations

from typing import cast

from perdure.flows.core.names import Role
from perdure.worker.diagnostics.run_case import number
from perdure.worker.domain.fleet import QueueInfo, WorkerInfo
from perdure.worker.operations.session import Session
from perdure.worker.store.lookups import (
    QueueLength,
    lines,
    lines_of_sets,
    queues_of_sets,
)


def read_queues(session: Session) -> list[QueueInfo]:
    """Return the queue of each role, with the queues of the role's flow sets counted in."""
    store = session.store
    now = store.time()
    workers = [WorkerInfo(*each) for each in store.fleet.workers()]
    sets = queues_of_sets(store.keys, workers, now, session.settings.heartbeat_seconds)
    lengths = session.connection.publisher.lengths(sets) if store.outbox else None
    of_sets = lines_of_sets(store, sets, lengths)
    return [
        _describe(session, line, [each for each in of_sets if each.role == line.role], now)
        for line in lines(store, lengths)
    ]


def _describe(
    session: Session, line: QueueLength, of_sets: list[QueueLength], now: int
) -> QueueInfo:
    pushed, taken = (int(number(text) or 0) for text in (line.pushed, line.taken))
    waits = [_waited(session, each, now) for each in (line, *of_sets)]
    length, handed_on = line.length, None
    if length is not None:
        handed_on = sum(each.length or 0 for each in of_sets)
        length += handed_on
    return QueueInfo(
        cast(Role, line.role),
        line.queue,
        length,
        pushed,
        taken,
        max((wait for wait in waits if wait is not None), default=None),
        handed_on,
    )


def _waited(session: Session, line: QueueLength, now: int) -> float | None:
    """Return the seconds since the run of a queue's next message was queued.

    Returns:
        The seconds. None if the queue is empty, its next message is invalid, or the run does not
            record when it was queued.
    """
    from perdure.worker.messaging.message import InvalidMessage, stored_round

    if line.next is None:
        return None
    try:
        run_id, _, _ = stored_round(line.next, session.store.keys.queue(line.role))
    except InvalidMessage:
        return None
    (fields,) = session.store.reads.some_fields([run_id], ["queued_at"])
    since = number(fields.get("queued_at"))
    return None if since is None else max(0.0, (now - since) / 1000)
