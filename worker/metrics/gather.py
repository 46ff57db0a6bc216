"""Data for the metrics, read in four round trips to the state server.

One round trip reads the queues of flow sets (``QueueInfo``) that live workers have announced, and
one reads the server's memory. A broker on another server needs one more.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.worker.client import Client
from perdure.worker.client.connection import session_of
from perdure.worker.domain.fleet import WorkerInfo
from perdure.worker.metrics.families import number
from perdure.worker.store import Store
from perdure.worker.store.keys import role_of
from perdure.worker.store.lookups import QueueLength, lines_of_sets, queues_of_sets
from perdure.worker.store.metrics import MetricsRead


@dataclass(frozen=True)
class MetricsSnapshot:
    """All data from which the metrics are made.

    Attributes:
        look: The result of the first read of the state server.
        workers: The workers that have announced themselves lately.
        alive: The live workers among ``workers``.
        lengths: The number of messages by role, in the role's queue and in its queues of flow sets.
            Empty if the broker is on another server and does not reply.
        handed_on: The part of ``lengths`` that is in queues of flow sets, by role.
        oldest: For how many seconds the run of the oldest message has been queued, by role. Empty
            if the broker is on another server.
        broker: Whether the broker replied, or is the state server itself.
        memory: Bytes of memory that the state server uses, and its limit (0: no limit). None if the
            server does not report its memory to this user.
    """

    look: MetricsRead
    workers: list[WorkerInfo]
    alive: list[WorkerInfo]
    lengths: Mapping[str, int]
    handed_on: Mapping[str, int]
    oldest: Mapping[str, float]
    broker: bool
    memory: tuple[int, int] | None

    @property
    def flows(self) -> list[str]:
        """The names of the flows that live workers run.

        Each flow has samples before its first event, so that Prometheus sees the first event as an
        increase.
        """
        return sorted({str(name) for worker in self.alive for name in worker.info.get("flows", {})})


def gather(client: Client) -> MetricsSnapshot:
    """Read the data of all metrics from the state server and the broker.

    Raises:
        StoreUnavailable: The state server does not reply.
    """
    session = session_of(client)
    store = session.store
    look = store.figures.look()
    workers = [_worker(*each) for each in look.workers]
    heartbeat = client.settings.heartbeat_seconds
    alive = [worker for worker in workers if worker.is_alive(look.now, heartbeat)]
    sets = queues_of_sets(store.keys, alive, look.now, heartbeat)
    counts: Mapping[str, int] = look.lengths
    broker = True
    if store.outbox:
        counts = session.connection.publisher.lengths(sets) or {}
        broker = bool(counts)
    of_sets = lines_of_sets(store, sets, counts if store.outbox else None)
    handed_on = {role_of(queue): 0 for queue in counts if queue not in sets}
    lengths = {role_of(queue): length for queue, length in counts.items() if queue not in sets}
    for line in of_sets:
        if line.length is not None:
            handed_on[line.role] += line.length
            lengths[line.role] += line.length
    oldest = {} if store.outbox else dict.fromkeys(lengths, 0.0)
    for role, age in [] if store.outbox else _ages(store, look, of_sets):
        oldest[role] = max(oldest[role], age)
    return MetricsSnapshot(
        look,
        workers,
        alive,
        lengths,
        handed_on,
        oldest,
        broker,
        store.figures.memory(),
    )


def _ages(
    store: Store, look: MetricsRead, of_sets: Sequence[QueueLength]
) -> list[tuple[str, float]]:
    """Return pairs: the role of a queue, and the age of the queue's oldest message.

    The age is the number of seconds for which the run of the message has been queued. A queue has
    no pair if the run is no longer queued with this message.
    """
    heads = [(role_of(queue), text) for queue, text in look.heads.items()]
    heads += [(line.role, line.next) for line in of_sets if line.next is not None]
    runs = [(role, text, run_id) for role, text in heads if (run_id := _run_of(text)) is not None]
    records = store.reads.some_fields(
        [run_id for _, _, run_id in runs], ("phase", "queued_at", "message")
    )
    ages = []
    for (role, text, _), fields in zip(runs, records, strict=True):
        queued_at = number(fields.get("queued_at"))
        if (
            queued_at is not None
            and fields.get("phase") == "queued"
            and fields.get("message") == text
        ):
            ages.append((role, max(0.0, (look.now - queued_at) / 1000)))
    return ages


def _run_of(text: str) -> str | None:
    """Return the run id in ``text``, a message of the broker.

    None if the message is not from Perdure. Other programs may write to a broker.
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
