"""Consumer: Celery's, for an app that has rounds and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery.concurrency import solo
from celery.worker import consumer

from worker.places import place_of
from worker.store.address import LOCALHOST
from worker.store.outage import Outage

#: Seconds between two tries to reach the broker again: the first, what each adds, the longest. Celery's own waits grow to 30 s.
RECONNECT = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2.0}


class Consumer(consumer.Consumer):  # type: ignore[misc]
    """Comes back soon after an outage of the broker, and takes no more from RabbitMQ than rounds need."""

    class Blueprint(consumer.Consumer.Blueprint):  # type: ignore[misc]
        """Celery's steps but one.

        Where Celery sees quorum queues it declares 28 more, and as many exchanges, to hold back tasks with a countdown. A round
        that has to wait stands in the due set; Celery never holds one back.
        """

        default_steps = [step for step in consumer.Consumer.Blueprint.default_steps if not step.endswith(":DelayedDelivery")]  # noqa: RUF012

    def __init__(self, *args: Any, pool: Any = None, initial_prefetch_count: int = 2, **options: Any) -> None:
        # A solo worker plays one round at a time, whatever its concurrency says; others would wait behind it in vain.
        count = 1 if isinstance(pool, solo.TaskPool) else initial_prefetch_count
        super().__init__(*args, pool=pool, initial_prefetch_count=count, **options)
        self._outage = Outage("the broker")

    def ensure_connected(self, conn: Any) -> Any:
        """The connection, once it stands."""
        connect = conn.ensure_connection
        settings = self.app.holdfast.settings
        what = f"the broker at {place_of(settings.broker_url or settings.redis_url or LOCALHOST)} cannot be reached"

        def told(_: Callable[..., Any], *args: Any, **options: Any) -> Any:
            # In place of Celery's line for each try.
            return connect(lambda error, _: self._outage.failed(what, error), *args, **{**options, **RECONNECT})

        conn.ensure_connection = told
        connected = super().ensure_connected(conn)
        self._outage.passed(what)
        return connected

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Wait where the broker refuses us (a wrong password, no such virtual host): Celery tries again five times a second."""
        super().on_connection_error_before_connected(exc)
        time.sleep(RECONNECT["interval_max"])
