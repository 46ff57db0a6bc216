"""Celery's consumer, changed for Perdure's own app, which only runs rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery.concurrency import solo
from celery.worker import consumer

from perdure.worker.store.outage import Outage
from perdure.worker.urls import LOCALHOST, place_of

#: Seconds between two attempts to reach the broker: first wait, increment, maximum. Celery's own
#: waits grow to 30 s.
RECONNECT = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2.0}


class Consumer(consumer.Consumer):  # type: ignore[misc]
    """Celery's consumer, but with faster reconnection.

    A solo worker receives one message at a time.
    """

    class Blueprint(consumer.Consumer.Blueprint):  # type: ignore[misc]
        """Celery's steps of the consumer, without DelayedDelivery.

        For quorum queues, Celery would declare 28 more queues, and as many exchanges, to delay
        tasks with a countdown. Rounds have no countdown: a round that has to wait is in the due
        set.
        """

        default_steps = [  # noqa: RUF012 -- as Celery declares it
            step
            for step in consumer.Consumer.Blueprint.default_steps
            if not step.endswith(":DelayedDelivery")
        ]

    def __init__(
        self, *args: Any, pool: Any = None, initial_prefetch_count: int = 2, **options: Any
    ) -> None:
        # A solo worker runs one round at a time, whatever its concurrency. Other messages would
        # wait behind it in vain.
        count = 1 if isinstance(pool, solo.TaskPool) else initial_prefetch_count
        super().__init__(*args, pool=pool, initial_prefetch_count=count, **options)
        self._outage = Outage("the broker")

    def ensure_connected(self, conn: Any) -> Any:
        """Connect to the broker, and return the connection.

        It tries again until the broker answers. An outage is logged at its beginning, once a minute
        and at its end, not for each attempt.
        """
        connect = conn.ensure_connection
        settings = self.app.perdure.settings
        url = settings.broker_url or settings.redis_url or LOCALHOST
        what = f"the broker at {place_of(url)} cannot be reached"

        def ensure_connection(_: Callable[..., Any], *args: Any, **options: Any) -> Any:
            # Replaces Celery's callback, which logs each attempt.
            return connect(
                lambda error, _: self._outage.failed(what, error), *args, **{**options, **RECONNECT}
            )

        conn.ensure_connection = ensure_connection
        connected = super().ensure_connected(conn)
        self._outage.passed(what)
        return connected

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Sleep two seconds after the broker has refused a connection, and then return.

        For example, the password is wrong, or the virtual host does not exist. Celery connects
        again afterwards. Without the sleep, it would try five times a second.
        """
        super().on_connection_error_before_connected(exc)
        time.sleep(RECONNECT["interval_max"])
