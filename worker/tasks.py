"""The two Celery tasks. Each plays one round; which worker takes which is a matter of queues alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from flows.process_end import ends_process
from worker.carrier import NEVER, RoundFailed, RoundTask, sender_of
from worker.engine import Engine
from worker.store import StoreUnavailable
from worker.task_names import SUBMIT, TASKS

if TYPE_CHECKING:
    from celery import Celery, Task

logger = logging.getLogger("holdfast.rounds")


def add_tasks(app: Celery, engine: Engine) -> None:
    """Register ``holdfast.controller_round`` and ``holdfast.executor_round`` on ``app``."""

    def play_round(task: Task, run_id: str, epoch: int, step: int) -> None:
        request = task.request  # Celery looks for it each time
        delivery = getattr(request, "holdfast_delivery", None)
        if delivery is not None:
            delivery.sender = sender_of(request)
        try:
            attempt = engine.rounds.attempt(run_id, epoch, step, delivery)
        except StoreUnavailable as error:
            # Nothing to undo: the run's hash still says what is due, and the sweep sends the message again.
            logger.error(
                "run %s, step %d: given up for now, the sweep takes it up again: %s",
                run_id,
                step,
                error,
                extra={"run_id": run_id, "step": step},
            )
            return
        except BaseException as error:
            if isinstance(error, Exception) or ends_process(error):
                raise
            # Celery's pools cannot tell such an end, and would keep the round's place for ever.
            raise RuntimeError(f"run {run_id}, step {step}: {type(error).__name__} outside of the round's node: {error}") from error
        if attempt.failure is not None:
            # For task events, Flower and error trackers. The engine has committed the failure, and retries the round.
            raise RoundFailed(attempt.failure)

    for name in TASKS.values():
        app.task(play_round, name=name, base=RoundTask, bind=True, shared=False)


def add_submit_task(app: Celery, engine: Engine) -> None:
    """Register ``holdfast.submit`` on an app of somebody's own, for beat and canvas.

    It takes the arguments of ``Client.submit`` and returns the run's id. A message that is delivered twice, or retried, submits once.
    """

    def submit(task: Task, flow: str, goal: str, inputs: dict[str, Any] | None = None, **options: Any) -> str:
        options.setdefault("idempotency_key", f"celery:{task.request.id}")
        return engine.client.submit(flow, goal, inputs, **options).id

    app.task(submit, name=SUBMIT, bind=True, shared=False)


def exempt_from_time_limits(app: Celery) -> None:
    """In a worker with time limits for all tasks: they are not for rounds, which have their own (``round_timeout_seconds``)."""
    for name in TASKS.values():
        app.tasks[name].time_limit = app.tasks[name].soft_time_limit = NEVER
