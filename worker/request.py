"""RoundRequest: how the process that receives messages sees a round it has given to its pool."""

from __future__ import annotations

import logging
from typing import Any

from billiard.einfo import ExceptionWithTraceback
from celery import signals
from celery.exceptions import Terminated, WorkerLostError
from celery.worker import state
from celery.worker.request import Request

from worker.guard.sifting import TRACING

logger = logging.getLogger("holdfast.rounds")

#: What Celery reports of a round whose process has ended, or (the last two) is ending.
DEATHS = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)

#: Headers that are not Celery's.
TRACERS = frozenset(TRACING)


class RoundRequest(Request):  # type: ignore[misc]
    """A Celery request of one of the two tasks. When its child process dies, the lease is forfeited at once.

    What its round's commit fetched is handed on when its own message is done with, and so takes its place in the pool.
    """

    acknowledged: bool

    def __init__(self, message: Any, **options: Any) -> None:
        super().__init__(message, **options)
        self._delivery = self.app.holdfast.fetching.delivery(message)
        if self._delivery is not None:
            self._request_dict["holdfast_delivery"] = self._delivery
            if TRACERS.isdisjoint(message.headers):
                # What Celery would find after a search: no header but its own.
                self._request_dict["headers"] = {}
            if not signals.task_received.receivers:
                # Nobody looks at it before the tracer, which would read the body once more.
                self._body, self._content_type, self._content_encoding, self._decoded = message.payload, None, None, True

    def acknowledge(self) -> None:
        """The message is done with."""
        delivery = self._delivery
        channel = self.message.channel
        if delivery is None or self.acknowledged or not self.app.holdfast.fetching.hand_on(delivery, channel):
            super().acknowledge()
            return
        # As kombu acknowledges, but here and now: the event loop need not wake for it, as the place is taken already.
        self.acknowledged = True
        channel.qos.ack(self.message.delivery_tag)

    def revoked(self) -> bool:
        """Return False: a round that Celery throws away would be sent again with the same id, and its run would stand still."""
        return False

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
        """The round's task raised, or its process died; of a dead process no more is told than one line."""
        error = exc_info.exception
        error = error.exc if isinstance(error, ExceptionWithTraceback) else error
        if not isinstance(error, DEATHS):
            super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
            return
        state.task_ready(self)
        self.send_event("task-failed", exception=repr(error), traceback=None)
        # Not back to the broker: the sweep sends the round's message again, and counts how often it costs a process.
        self.acknowledge()
        run_id, epoch, step = self.args
        logger.warning(
            "run %s, step %d: its process %s died under it", run_id, step, self.worker_pid, extra={"run_id": run_id, "step": step}
        )
        sweeper = self.app.holdfast.sweeping
        if self.worker_pid is not None and sweeper is not None:
            sweeper.forfeit(run_id, epoch, step, self.worker_pid)

    def give_back(self) -> None:
        """Not begun, and it will not be: to another worker."""
        if self._delivery is None or self._delivery.claim is None:
            self.reject(requeue=True)
        else:
            self.acknowledge()
            self.app.holdfast.rounds.give_back(self._delivery.claim)


def in_flight() -> list[RoundRequest]:
    """The rounds that the pool of this process is playing."""
    # A copy, made in one go: the worker's main thread goes on changing the original.
    requests = list(state.requests.values())
    return [request for request in requests if isinstance(request, RoundRequest) and request.time_start is not None]


def give_back_not_begun() -> None:
    """Messages that this process has, and no process or thread of its pool has taken up: to others, at once."""
    for request in list(state.reserved_requests):
        if isinstance(request, RoundRequest) and request.time_start is None:
            request.give_back()
