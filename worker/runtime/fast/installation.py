"""Installs the fast path in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.worker.engine.fast.handoff import FastRounds
from perdure.worker.messaging.fast.shape import Shapes
from perdure.worker.messaging.message import TASKS
from perdure.worker.private_parts.worker_pool import replace_thread_executor
from perdure.worker.runtime.fast.delivery import Delivery
from perdure.worker.runtime.fast.request import FastRequest
from perdure.worker.runtime.fast.thread_pool import RoundThreadPool
from perdure.worker.runtime.runtime import Runtime


def fast_rounds(engine: Runtime) -> FastRounds:
    """Build the shared parts of this process's fast paths.

    They are prefetch, affinity and the CPU limiter. Prefetch is off until it is switched on.
    """
    return FastRounds(
        engine.store,
        engine.rounds.committer,
        engine.flows,
        engine.name,
        engine.settings.lease_seconds,
        engine.drain,
        lambda: len(engine.heartbeat),
    )


def install_fast_path(
    engine: Runtime, parent: Any, queues: Sequence[str], own: Sequence[str], inline: bool
) -> None:
    """Make this worker's commits prefetch its next messages.

    Call this before the worker's consumer starts.

    Args:
        engine: The runtime of this process.
        parent: Celery's worker.
        queues: The queues of the roles that the worker consumes.
        own: The queues of the worker's flow set.
        inline: Whether the pool runs a round in the very call that submits it (solo).
    """
    rounds = fast_rounds(engine)
    for name in TASKS.values():
        engine.app.tasks[name].Request = FastRequest
    replace_thread_executor(
        parent.pool, lambda: RoundThreadPool(parent.pool.limit, rounds.cpu_limiter.leave)
    )
    engine.fast = Delivery(rounds, engine.rounds.release, Shapes().validate, inline)
    rounds.prefetcher.begin(queues, parent.pool.limit, inline, own)
