"""Metrics of queues, the due set, workers, dead letters, paused flows and the server's memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import Metric

from perdure.worker.domain.fleet import WorkerInfo
from perdure.worker.metrics.families import Labels, counter, gauge, number
from perdure.worker.metrics.gather import MetricsSnapshot
from perdure.worker.store.keys import ROLES, role_of

ALL_ROLES = (*ROLES, "all")
STATES = ("playing", "draining", "silent")


def families(gathered: MetricsSnapshot) -> Iterator[Metric]:
    """Yield the metrics of queues, due set, workers, memory and version.

    The dead letters and the paused flows have metrics too.
    """
    yield from _queues(gathered)
    yield from _due(gathered)
    yield from _workers(gathered)
    look = gathered.look
    yield from _memory(gathered)
    yield gauge(
        "perdure_dead_letters",
        "Messages that were refused and stored as dead letters; "
        "the oldest of very many are dropped.",
        value=look.dead,
    )
    yield gauge(
        "perdure_flow_paused",
        "1 for each flow that is paused.",
        ("flow",),
        [((flow,), 1) for flow in look.paused],
    )
    yield gauge(
        "perdure_build_info",
        "1, with the version of the server process that replied.",
        ("version",),
        [((_version(),), 1)],
    )


def _queues(gathered: MetricsSnapshot) -> Iterator[Metric]:
    pushed = [
        ((role_of(queue),), amount)
        for queue in gathered.look.lengths
        if (amount := _pushed(gathered, queue)) is not None
    ]
    yield gauge(
        "perdure_broker_up",
        "1 if the broker answered or is the state server itself, else 0.",
        value=gathered.broker,
    )
    yield gauge(
        "perdure_queue_messages",
        "Messages that wait for workers of the role, in its queue or in queues of flow sets.",
        ("queue",),
        [((queue,), size) for queue, size in gathered.lengths.items()],
    )
    yield gauge(
        "perdure_queue_handed_on_messages",
        "Those of the messages that wait in queues of flow sets: only workers that play the "
        "run's flow take them.",
        ("queue",),
        [((queue,), size) for queue, size in gathered.handed_on.items()],
    )
    yield gauge(
        "perdure_queue_oldest_seconds",
        "How long the run of the oldest message has been queued; 0 if the queue is empty. "
        "Absent if the broker is another server.",
        ("queue",),
        [((queue,), age) for queue, age in gathered.oldest.items()],
    )
    yield counter(
        "perdure_queue_pushed",
        "Messages pushed, one per round; more if the broker is another server and some were "
        "sent again.",
        ("queue",),
        pushed,
    )


def _due(gathered: MetricsSnapshot) -> Iterator[Metric]:
    look = gathered.look
    overdue = 0.0 if look.first_due is None else max(0.0, (look.now - look.first_due) / 1000)
    swept_at = number(look.queues.get("swept_at"))
    yield gauge(
        "perdure_due_runs",
        "Runs that the engine must move at some time: all live ones, "
        "and questions with a deadline.",
        value=look.due,
    )
    yield gauge(
        "perdure_due_oldest_seconds",
        "How long the most overdue run has been overdue; 0 if none is.",
        value=overdue,
    )
    if swept_at is not None:
        yield gauge(
            "perdure_sweep_age_seconds",
            "Time since a worker last swept.",
            value=max(0.0, (look.now - swept_at) / 1000),
        )


def _workers(gathered: MetricsSnapshot) -> Iterator[Metric]:
    states = Counter((worker.role, _state(worker, gathered)) for worker in gathered.workers)
    slots: Counter[str] = Counter()
    playing: Counter[str] = Counter()
    for worker in gathered.alive:
        slots[worker.role] += worker.count("concurrency")
        playing[worker.role] += worker.count("rounds")
    yield gauge(
        "perdure_workers",
        "Workers by role and state: playing, draining (they take nothing new), "
        "or silent for ten heartbeats.",
        ("role", "state"),
        [((role, state), states[role, state]) for role in ALL_ROLES for state in STATES],
    )
    yield gauge(
        "perdure_worker_slots",
        "Rounds that the live workers can run concurrently.",
        ("role",),
        _by_role(slots),
    )
    yield gauge(
        "perdure_rounds_in_flight",
        "Rounds that the live workers are running.",
        ("role",),
        _by_role(playing),
    )


def _memory(gathered: MetricsSnapshot) -> Iterator[Metric]:
    used, most = gathered.memory or (None, None)
    yield gauge(
        "perdure_server_memory_bytes",
        "Memory that the state server uses for its data.",
        values=[] if used is None else [((), used)],
    )
    yield gauge(
        "perdure_server_memory_limit_bytes",
        "The maxmemory of the state server; 0 if it has no limit.",
        values=[] if most is None else [((), most)],
    )


def _by_role(amounts: Counter[str]) -> list[tuple[Labels, float]]:
    return [((role,), amounts[role]) for role in ALL_ROLES]


def _state(worker: WorkerInfo, gathered: MetricsSnapshot) -> str:
    if worker not in gathered.alive:
        return "silent"
    return "draining" if worker.info.get("draining") else "playing"


def _pushed(gathered: MetricsSnapshot, queue: str) -> float | None:
    return number(gathered.look.queues.get(f"{queue}:pushed", "0"))


def _version() -> str:
    try:
        return version("perdure")
    except PackageNotFoundError:
        return "unknown"
