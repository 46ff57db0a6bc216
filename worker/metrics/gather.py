"""Data for the metrics, read in two exchanges with the state server.

A broker on another server takes one exchange more, and so do rules of notifications.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from perdure.worker.client import Client
from perdure.worker.domain.fleet import WorkerInfo
from perdure.worker.metrics.families import number
from perdure.worker.store.keys import role_of
from perdure.worker.store.metrics import MetricsRead
from perdure.worker.store.notifications import NotificationRecords

T = TypeVar("T")


@dataclass(frozen=True)
class MetricsSnapshot:
    """Everything that the metrics are made from.

    Attributes:
        look: Data of the state server.
        workers: Workers that announced themselves lately.
        alive: Those of them that are alive.
        lengths: Number of messages in each queue, by role. Empty if a broker on another server does
            not answer.
        oldest: Seconds for which the run of the oldest message has been queued, by role. Only if
            the queues are on the state server.
        broker: Whether the broker answered.
        backlog: Number of notifications that are still to be delivered, by rule.
        dead_notifications: Number of notifications whose delivery was given up.
    """

    look: MetricsRead
    workers: list[WorkerInfo]
    alive: list[WorkerInfo]
    lengths: Mapping[str, int]
    oldest: Mapping[str, float]
    broker: bool
    backlog: Mapping[str, int]
    dead_notifications: int

    @property
    def flows(self) -> list[str]:
        """The names of the flows that live workers run.

        A flow gets metrics before anything happens, so that a first event shows as an increase.
        """
        return sorted({str(name) for worker in self.alive for name in worker.info.get("flows", {})})


def gather(client: Client) -> MetricsSnapshot:
    """Read all data that the Prometheus metrics need from the state server and the broker.

    Raises:
        StoreUnavailable: The state server does not reply.
    """
    look = client._store.figures.look()
    lengths: Mapping[str, int] = look.lengths
    oldest: Mapping[str, float] = {}
    broker = True
    if client._store.outbox:
        lengths = client._connection.publisher.lengths() or {}
        broker = bool(lengths)
    else:
        oldest = dict.fromkeys(lengths, 0.0) | _ages(client, look)
    lengths, oldest = _by_role(lengths), _by_role(oldest)
    workers = [_worker(*each) for each in look.workers]
    heartbeat = client.settings.heartbeat_seconds
    alive = [worker for worker in workers if worker.is_alive(look.now, heartbeat)]
    records = NotificationRecords(client._store)
    backlog = records.backlog(look.rules)
    # Without a rule there never was a notification, and a scrape does not ask.
    dead = records.dead_count() if look.rules else 0
    return MetricsSnapshot(look, workers, alive, lengths, oldest, broker, backlog, dead)


def _ages(client: Client, look: MetricsRead) -> dict[str, float]:
    """Return for each queue how many seconds the run of its oldest message has been queued.

    A queue is left out if that run has moved on.
    """
    runs = {
        queue: run_id for queue, text in look.heads.items() if (run_id := _run_of(text)) is not None
    }
    records = client._store.some_fields(list(runs.values()), ("phase", "queued_at", "message"))
    ages = {}
    for queue, fields in zip(runs, records, strict=True):
        queued_at = number(fields.get("queued_at"))
        if (
            queued_at is not None
            and fields.get("phase") == "queued"
            and fields.get("message") == look.heads[queue]
        ):
            ages[queue] = max(0.0, (look.now - queued_at) / 1000)
    return ages


def _by_role(amounts: Mapping[str, T]) -> dict[str, T]:
    return {role_of(queue): amount for queue, amount in amounts.items()}


def _run_of(text: str) -> str | None:
    """Return the id of the run that a Celery message is for.

    Returns:
        The run's id, or None if it is not a message of Perdure. Other programs may write to a
            broker.
    """
    try:
        args = json.loads(b64decode(json.loads(text)["body"]))[0]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return args[0] if isinstance(args, list) and args and isinstance(args[0], str) else None


def _worker(name: str, beat: float, text: str) -> WorkerInfo:
    try:
        info = json.loads(text)
    except ValueError:
        info = {}
    return WorkerInfo(name, beat, info if isinstance(info, dict) else {})
