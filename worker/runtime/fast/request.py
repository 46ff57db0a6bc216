"""FastRequest: the Celery request of a round on the fast path.

Replaces: ``perdure.worker.runtime.request.RoundRequest`` in a worker whose commits prefetch. When a
round's message is acknowledged, the prefetched message is delivered. So the next round starts in
the same slot of the pool.

Worth and switch off: see ``perdure.worker.engine.fast.prefetch``.

It uses ``private_parts.messages`` to change the data of the request that Celery's tracer reads.
"""

from __future__ import annotations

from typing import Any

from celery import signals

from perdure.worker.engine.fast.handoff import Handoff
from perdure.worker.engine.fast_path import REQUEST_ATTRIBUTE
from perdure.worker.messaging.message import TRACING
from perdure.worker.private_parts.messages import set_decoded_body, set_request_attribute
from perdure.worker.runtime.request import RoundRequest

#: Headers of tracing libraries, which are not Celery's own.
TRACERS = frozenset(TRACING)


class FastRequest(RoundRequest):
    """A Celery request that passes the fast path to its round.

    After the round, it delivers the message that the round's commit prefetched.
    """

    _handoff: Handoff | None

    def __init__(self, message: Any, **options: Any) -> None:
        super().__init__(message, **options)
        self._handoff = self.app.perdure.fast.handoff(message)
        if self._handoff is not None:
            # Celery makes it an attribute of the task's request (worker/runtime/worker_step.py).
            set_request_attribute(self, REQUEST_ATTRIBUTE, self._handoff)
            if TRACERS.isdisjoint(message.headers):
                # Celery would get the same from a search: the message has only Celery's own
                # headers.
                set_request_attribute(self, "headers", {})
            if not signals.task_received.receivers:
                # Without a receiver only the tracer reads the body, and it would decode it once
                # more.
                set_decoded_body(self, message.payload)

    def acknowledge(self) -> None:
        """Acknowledge the round's message, and deliver the prefetched message.

        The delivery submits the next round to the pool. If the connection was lost meanwhile, the
        round's message counts as acknowledged already (worker/runtime/unacknowledged.py). Even
        then, the prefetched message must be delivered, or its claim released.
        """
        channel = self.message.channel
        if self._handoff is None or not self.app.perdure.fast.deliver_next(self._handoff, channel):
            super().acknowledge()
            return
        # As kombu acknowledges, but here and now: the event loop need not wake, as the slot is
        # taken already.
        self.acknowledged = True
        channel.qos.ack(self.message.delivery_tag)

    def give_back(self) -> None:
        """Give a round that has not begun to another worker.

        If the round is claimed, the claim is released. If not, the message is put back into its
        queue.
        """
        if self._handoff is None or self._handoff.claim is None:
            super().give_back()
        else:
            self.acknowledge()
            self.app.perdure.rounds.release(self._handoff.claim)
