"""The app of a worker process of plain Celery: the user's app with the broker of this benchmark."""

from __future__ import annotations

import os

from celery import signals

from benchmarks.orders.examples.celery_order import app
from benchmarks.orders.side import BROKER, VISIBILITY
from benchmarks.tally import tell_ready

app.conf.update(broker_url=os.environ[BROKER], broker_connection_retry_on_startup=True)
if VISIBILITY in os.environ:
    app.conf.broker_transport_options = {"visibility_timeout": float(os.environ[VISIBILITY])}
signals.worker_ready.connect(lambda **_: tell_ready(), weak=False)
