"""The Celery app that plays rounds: ``celery -A worker.app worker``. worker/installing.py puts the same on an app of one's own."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from typing import Any

from celery import Celery, signals
from kombu.transport import TRANSPORT_ALIASES

from worker.broker import broker_ssl, broker_url, check_broker_url, is_amqp, queues_of
from worker.discovery import with_server
from worker.installing import engine_of, install
from worker.logs import set_up_logging
from worker.sentinel_url import is_sentinel, read
from worker.settings import Settings, current
from worker.store.address import LOCALHOST, check_url
from worker.store.keys import Keys
from worker.store.letters import DeadLetters
from worker.store.reaching import sentinel_options
from worker.telemetry.exporting import set_up

__all__ = ["broker_url", "engine_of", "install", "make_app"]

#: The transport that keeps malformed messages from the worker; everything else in it is kombu's Redis transport.
GUARD = "worker.guard:Transport"
#: Late acks on top of no unacked bookkeeping: a message is popped only for a free slot, with 2 Redis commands a task.
REDIS_OPTIONS = {"ack_emulation": False, "socket_keepalive": True}
#: Seconds for one answer of RabbitMQ: without them a worker waits for ever for one that was killed while it was to answer.
AMQP_OPTIONS = {"read_timeout": 5.0, "write_timeout": 5.0}
AMQP_GUARD = "worker.guard.amqp:Transport"
SENTINEL_GUARD = "worker.guard.sentinel:Transport"
#: A master that stands still answers nothing, and its connections stay: so many seconds for an answer, and for one of BRPOP that many
#: beyond its second. kombu's are none and 25; by then the Sentinels have another master, and the worker would not know.
SENTINEL_OPTIONS = {**REDIS_OPTIONS, "socket_timeout": 5.0, "socket_connect_timeout": 2.0, "health_check_interval": 3}
#: The guard under a name of its own: for a unix socket kombu takes the transport from the URL and nowhere else.
TRANSPORT_ALIASES["holdfast"] = GUARD


class HoldfastApp(Celery):  # type: ignore[misc]
    """What ``make_app`` makes. A pool whose processes are no forks (macOS) sends it to them, as what makes it again."""

    backend_cls = "disabled"  # a CELERY_RESULT_BACKEND in the environment, meant for another app, outdoes the setting

    def __reduce__(self) -> tuple[Callable[..., Celery], tuple[Any, ...]]:
        engine = engine_of(self)
        return _made_again, (engine.settings, engine.name, engine.worker_pid)


def _made_again(settings: Settings, name: str, worker_pid: int | None) -> Celery:
    app = make_app(settings)
    engine = engine_of(app)
    engine.name, engine.worker_pid = name, worker_pid
    set_up()
    return app


def make_app(settings: Settings) -> Celery:
    """A Celery app with Holdfast on it, set as PROTOCOL's Celery side wants it: nothing is prefetched, JSON only, no results."""
    keys = Keys(settings.prefix)
    check_url(settings.redis_url or LOCALHOST)
    check_broker_url(settings.broker_url or settings.redis_url or LOCALHOST)
    place = settings.broker_url or settings.redis_url or LOCALHOST
    url = broker_url(place)
    amqp = is_amqp(url)
    guard, options = _guard(place, amqp)
    app = HoldfastApp("holdfast", broker=url, set_as_current=False)
    app.conf.update(
        # Said once more under these names: a CELERY_BROKER_URL in the environment, meant for another app, outdoes the plain one.
        broker_read_url=url,
        broker_write_url=url,
        broker_transport=guard,
        broker_use_ssl=broker_ssl(place),
        broker_transport_options={
            **options,
            "guard_prefix": settings.prefix,
            "guard_letters": DeadLetters(settings.redis_url or LOCALHOST, settings.prefix).put_aside,
        },
        worker_consumer="worker.consumer:Consumer",
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=2,
        broker_heartbeat=10,
        # RabbitMQ closes the channel of a round that took longer than its consumer_timeout; that must not end the worker.
        broker_channel_error_retry=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        worker_send_task_events=settings.task_events,
        task_ignore_result=True,
        result_backend=None,
        task_serializer="json",
        accept_content=["json"],
        task_queues=queues_of(keys, amqp),
        task_default_queue=keys.queue("controller"),
        task_create_missing_queues=False,
        worker_pool="threads",
        worker_concurrency=settings.concurrency,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    install(app, settings)
    engine_of(app).owns_app = True
    return app


def _guard(place: str, amqp: bool) -> tuple[str, dict[str, Any]]:
    """The guard's transport for the broker at ``place``, and the options it needs."""
    if amqp:
        return AMQP_GUARD, AMQP_OPTIONS
    if not is_sentinel(place):
        return GUARD, REDIS_OPTIONS
    service = read(place)
    named = {"master_name": service.master, "guard_sentinels": service.sentinels, "sentinel_kwargs": sentinel_options(service)}
    return SENTINEL_GUARD, {**SENTINEL_OPTIONS, **named}


def __getattr__(name: str) -> Celery:
    """``worker.app.app``, made when Celery's command line asks for it: importing this module reads no settings."""
    if name in ("app", "celery"):
        settings = with_server(current())
        globals()["app"] = globals()["celery"] = made = make_app(settings)
        if re.search(r"\s(-P|--pool)[\s=]?prefork(\s|$)", " ".join(sys.argv)):
            made.conf.worker_pool = "prefork"  # Celery takes this of all names for "not said", and then the app's own
        if settings.log_format == "json":  # text is left to Celery's own options
            signals.setup_logging.connect(lambda loglevel=None, **_: set_up_logging("json", loglevel or logging.WARNING), weak=False)
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
