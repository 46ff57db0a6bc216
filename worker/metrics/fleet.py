"""Fleet: queues, the due set, workers, and what waits for somebody to look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import Metric

from worker.metrics.families import Labels, counter, gauge, number
from worker.metrics.gathering import Gathered, WorkerTold
from worker.store.keys import ROLES, role_of

ALL_ROLES = (*ROLES, "all")
STATES = ("playing", "draining", "silent")


def families(gathered: Gathered) -> Iterator[Metric]:
    """Of what carries the runs."""
    yield from _queues(gathered)
    yield from _due(gathered)
    yield from _workers(gathered)
    look = gathered.look
    yield gauge("holdfast_dead_letters", "Messages that were refused and put aside; the oldest of very many are dropped.", value=look.dead)
    yield gauge("holdfast_flow_paused", "1 for each flow that is paused.", ("flow",), [((flow,), 1) for flow in look.paused])
    yield gauge("holdfast_build_info", "1, with the version of the server process that was asked.", ("version",), [((_version(),), 1)])


def _queues(gathered: Gathered) -> Iterator[Metric]:
    pushed = [((role_of(queue),), amount) for queue in gathered.look.lengths if (amount := _pushed(gathered, queue)) is not None]
    yield gauge("holdfast_broker_up", "Whether the broker answered; 1 where it is the state server itself.", value=gathered.broker)
    yield gauge("holdfast_queue_messages", "Messages in line.", ("queue",), [((queue,), size) for queue, size in gathered.lengths.items()])
    yield gauge(
        "holdfast_queue_oldest_seconds",
        "How long the run of the oldest message has been queued; 0 where none is in line. Not told where the broker is another server.",
        ("queue",),
        [((queue,), age) for queue, age in gathered.oldest.items()],
    )
    yield counter(
        "holdfast_queue_pushed",
        "Messages pushed, one a round; more where the broker is another server and some were sent again.",
        ("queue",),
        pushed,
    )


def _due(gathered: Gathered) -> Iterator[Metric]:
    look = gathered.look
    overdue = 0.0 if look.first_due is None else max(0.0, (look.now - look.first_due) / 1000)
    swept_at = number(look.queues.get("swept_at"))
    yield gauge(
        "holdfast_due_runs", "Runs that somebody must move at some time: all live ones, and questions with a deadline.", value=look.due
    )
    yield gauge(
        "holdfast_due_oldest_seconds", "How long the run that has been due for the longest has been overdue; 0 for none.", value=overdue
    )
    if swept_at is not None:
        yield gauge("holdfast_sweep_age_seconds", "Time since some worker swept.", value=max(0.0, (look.now - swept_at) / 1000))


def _workers(gathered: Gathered) -> Iterator[Metric]:
    states = Counter((worker.role, _state(worker)) for worker in gathered.workers)
    slots: Counter[str] = Counter()
    playing: Counter[str] = Counter()
    for worker in gathered.workers:
        if worker.alive:
            slots[worker.role] += worker.count("concurrency")
            playing[worker.role] += worker.count("rounds")
    yield gauge(
        "holdfast_workers",
        "Workers by the role they play: playing, draining (they take nothing new), or silent for ten heartbeats.",
        ("role", "state"),
        [((role, state), states[role, state]) for role in ALL_ROLES for state in STATES],
    )
    yield gauge("holdfast_worker_slots", "Rounds that the living workers can play at once.", ("role",), _by_role(slots))
    yield gauge("holdfast_rounds_in_flight", "Rounds that the living workers are playing.", ("role",), _by_role(playing))


def _by_role(amounts: Counter[str]) -> list[tuple[Labels, float]]:
    return [((role,), amounts[role]) for role in ALL_ROLES]


def _state(worker: WorkerTold) -> str:
    if not worker.alive:
        return "silent"
    return "draining" if worker.info.get("draining") else "playing"


def _pushed(gathered: Gathered, queue: str) -> float | None:
    return number(gathered.look.queues.get(f"{queue}:pushed", "0"))


def _version() -> str:
    try:
        return version("holdfast")
    except PackageNotFoundError:
        return "unknown"
