"""RoundRequest: the record that Celery's main worker process has of a round in the pool."""

from __future__ import annotations

import logging
from typing import Any

from billiard.einfo import ExceptionWithTraceback
from celery.exceptions import Terminated, WorkerLostError
from celery.worker import state
from celery.worker.request import Request

logger = logging.getLogger("perdure.rounds")

#: Errors that Celery reports for a round whose process has ended, or (the last two) is ending.
DEATHS = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)


class RoundRequest(Request):  # type: ignore[misc]
    """A Celery request for one of Perdure's two tasks: a round.

    If the child process of the round dies, the round's lease is ended at once.
    """

    acknowledged: bool

    def revoked(self) -> bool:
        """Return False: Celery must never discard a round as revoked.

        The sweep would publish the round's message again with the same task id, and Celery would
        discard the message again. So the run would never continue.
        """
        return False

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Report a round whose task failed, or whose process died.

        If the process died, one line is logged, the message is acknowledged, and the round's lease
        is ended at once. Otherwise Celery's own method reports the failure.
        """
        error = exc_info.exception
        error = error.exc if isinstance(error, ExceptionWithTraceback) else error
        if not isinstance(error, DEATHS):
            super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
            return
        state.task_ready(self)
        self.send_event("task-failed", exception=repr(error), traceback=None)
        # Not returned to the broker: the sweep sends the round's message again, and counts how
        # often it costs a process.
        self.acknowledge()
        run_id, epoch, step = self.args
        logger.warning(
            "run %s, step %d: its process %s died under it",
            run_id,
            step,
            self.worker_pid,
            extra={"run_id": run_id, "step": step},
        )
        sweeper = self.app.perdure.sweeper
        if self.worker_pid is not None and sweeper is not None:
            sweeper.release_dead_lease(run_id, epoch, step, self.worker_pid)

    def give_back(self) -> None:
        """Put the message of a round back into its queue, so that another worker receives it.

        The round must not have begun.
        """
        self.reject(requeue=True)


def in_flight() -> list[RoundRequest]:
    """Return the requests of rounds in this worker's pool.

    Rounds that have not begun are left out.
    """
    # A copy, made in one step: the worker's main thread keeps changing the original.
    requests = list(state.requests.values())
    return [
        request
        for request in requests
        if isinstance(request, RoundRequest) and request.time_start is not None
    ]


def give_back_not_begun() -> None:
    """Put the messages of all received rounds that have not begun back into their queues.

    If such a round is claimed, its claim is released instead.
    """
    for request in list(state.reserved_requests):
        if isinstance(request, RoundRequest) and request.time_start is None:
            request.give_back()
