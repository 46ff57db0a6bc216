"""The other side: plain Celery tasks that enqueue themselves, thirty times a run, with late acknowledgement and threads."""

from __future__ import annotations

import os

from celery import Celery

from worker.app import broker_url

app = Celery("plain", broker=broker_url(os.environ.get("BENCH_URL", "redis://localhost:6379/0")).replace("holdfast+", "redis+"))
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_pool="threads",
    worker_concurrency=16,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)

#: Counts the runs that have ended.
ENDED = "plain:ended"


@app.task(name="plain.round")
def play(state: dict[str, str], left: int) -> None:
    """One empty round that carries its state in the message, as code without an engine does."""
    if left > 1:
        play.delay(state, left - 1)
    else:
        with app.connection_or_acquire() as connection:
            connection.default_channel.client.incr(ENDED)
