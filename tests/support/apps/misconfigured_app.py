"""A Celery app with settings the doctor must report.

APP_SETS names the faults, separated by commas. With APP_IS=theirs, it is a user's app with Perdure
installed, else Perdure's own app.
"""

from __future__ import annotations

import os

from celery import Celery

from perdure import install
from perdure.worker.app import broker_url, make_app
from perdure.worker.settings import current


def _careless(app: Celery) -> Celery:
    """Change the app's settings that APP_SETS names, each of which voids the promises."""
    for name in os.environ.get("APP_SETS", "").split(","):
        match name:
            case "pickle":
                app.conf.accept_content = ["json", "pickle"]
            case "prefetch":
                app.conf.worker_disable_prefetch = True
            case "prefetch-multiplier":
                app.conf.worker_prefetch_multiplier = 4
            case "always-eager":
                app.conf.task_always_eager = True
            case "accept-content":
                app.conf.update(
                    accept_content=["pickle"], task_serializer="pickle", result_serializer="pickle"
                )
            case "queue-names":
                app.conf.broker_transport_options = {
                    **app.conf.broker_transport_options,
                    "global_keyprefix": "theirs:",
                }
            case "queue-names-steps":
                app.conf.broker_transport_options = {
                    **app.conf.broker_transport_options,
                    "priority_steps": [3, 6],
                }
            case "remote-control":
                app.conf.worker_enable_remote_control = True
    return app


def own() -> Celery:
    """Return Perdure's own app."""
    return _careless(make_app(current()))


def theirs() -> Celery:
    """Return a user's app, with Perdure on it."""
    url = current().redis_url
    assert url is not None
    app = Celery("theirs", broker=broker_url(url))
    app.conf.update(
        task_default_queue=f"{current().prefix}.controller",
        worker_enable_remote_control=False,
        broker_transport="perdure.worker.messaging.transports:RedisTransport",
    )
    return install(_careless(app))


app = theirs() if os.environ.get("APP_IS") == "theirs" else own()
