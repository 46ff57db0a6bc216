"""A small shop's Celery app, as such apps are: queues and routes, results, retries, signals, a base
class, a schedule.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, Task, signals
from kombu import Exchange, Queue

SERVER = os.environ["SHOP_SERVER"]


class Audited(Task):
    """Every task of the shop writes down that it was called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.app.backend.client.rpush("shop:audit", self.name)
        return super().__call__(*args, **kwargs)


app = Celery(
    "shop", broker=SERVER, backend=SERVER, task_cls=Audited, include=["tests.support.shop.tasks"]
)
app.conf.update(
    task_queues=[
        Queue("orders"),
        Queue("mail", Exchange("mail", type="topic"), routing_key="mail.#"),
    ],
    task_default_queue="orders",
    task_routes={"shop.mail.*": {"queue": "mail", "routing_key": "mail.any"}},
    task_create_missing_queues=False,
    task_serializer="pickle",
    result_serializer="pickle",
    accept_content=["json", "pickle"],
    task_time_limit=20,
    task_annotations={"shop.slow": {"time_limit": 1}},
    result_expires=60,
    result_extended=True,
    task_track_started=True,
    worker_prefetch_multiplier=4,
    beat_schedule={"stock-taking": {"task": "shop.take_stock", "schedule": 0.5}},
)
app.conf.broker_transport_options = {"visibility_timeout": 60, "queue_order_strategy": "sorted"}


@signals.task_postrun.connect
def _count(task: Any = None, **_: Any) -> None:
    if not task.name.startswith("perdure."):
        app.backend.client.incr("shop:done")


if os.environ.get("SHOP_HAS_PERDURE") == "1":
    from perdure import install

    install(app)
