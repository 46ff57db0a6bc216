"""The other side: the soak's rounds as plain Celery tasks that enqueue each other, with late acks
and a short visibility timeout.

``celery -A tests.soak.plain_celery worker``. Its settings are its documentation's advice against
lost workers.
"""

from __future__ import annotations

import os
import time

from celery import Celery

from tests.soak.workload import ledger

#: In the environment: where its broker is.
BROKER = "SOAK_BROKER"
#: Seconds after which an unacknowledged message is given to another worker.
VISIBILITY_TIMEOUT = 5

app = Celery("plain", broker=os.environ.get(BROKER))
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    broker_transport_options={"visibility_timeout": VISIBILITY_TIMEOUT},
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    worker_hijack_root_logger=False,
)


@app.task(name="plain.round")
def play(run: str, step: int, rounds: int, seconds: float) -> None:
    """Play one round, and enqueue the next at its end, as code without an engine does."""
    what = run, step, 0, f"{run}:{step}"
    ledger().tried(*what)
    time.sleep(seconds)
    ledger().apply(*what)
    if step + 1 < rounds:
        play.delay(run, step + 1, rounds, seconds)
    ledger().left(*what)
