"""Perdure's own Celery app: its broker, its transport and its settings for rounds.

``worker/app.py`` adds the tasks to it for a worker. The app of a client only publishes.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

from perdure.worker.broker_urls import broker_url, is_amqp
from perdure.worker.messaging.broker import (
    broker_ssl,
    check_broker_url,
    queues_of,
)
from perdure.worker.messaging.message import TASKS
from perdure.worker.messaging.message_builder import RoundTask
from perdure.worker.settings import Settings
from perdure.worker.store.keys import Keys
from perdure.worker.store.sentinel import sentinel_options
from perdure.worker.store.tables import DeadLetters
from perdure.worker.store.urls import check_url
from perdure.worker.urls import LOCALHOST, is_sentinel, parse_sentinels

#: The transport that keeps invalid messages from the worker. Otherwise it is kombu's Redis
#: transport.
REDIS_TRANSPORT = "perdure.worker.messaging.transports:RedisTransport"
#: Late acknowledgement without kombu's records of unacknowledged messages: a message is popped only
#: for a free slot, with 2 Redis commands per task.
REDIS_OPTIONS = {"ack_emulation": False, "socket_keepalive": True}
#: Seconds for one reply of RabbitMQ. Without them a worker waits for ever for a server that was
#: killed before it replied.
AMQP_OPTIONS = {"read_timeout": 5.0, "write_timeout": 5.0}
AMQP_TRANSPORT = "perdure.worker.messaging.transports.amqp:AmqpTransport"
SENTINEL_TRANSPORT = "perdure.worker.messaging.transports.sentinel:SentinelTransport"
#: Seconds for a reply, and for one of BRPOP beyond its timeout of a second. A master that hangs
#: replies nothing and keeps its connections. kombu's values are none and 25, and by then the
#: Sentinels have another master.
SENTINEL_OPTIONS = {
    **REDIS_OPTIONS,
    "socket_timeout": 5.0,
    "socket_connect_timeout": 2.0,
    "health_check_interval": 3,
}
#: The transport under a name of its own: for a unix socket kombu takes the transport from the URL
#: only.
TRANSPORT_ALIASES["perdure"] = REDIS_TRANSPORT


class OwnApp(Celery):  # type: ignore[misc]
    """A Celery app that is only for rounds."""

    # CELERY_RESULT_BACKEND in the environment, meant for another app, overrides the setting.
    backend_cls = "disabled"


def celery_app(settings: Settings, kind: type[OwnApp] = OwnApp) -> OwnApp:
    """Return Perdure's own Celery app, without tasks.

    Its workers receive a message only for a free slot, accept only JSON, and store no results.

    Args:
        kind: The class of the app.

    Raises:
        InvalidSettings: The URL of the state server or of the broker is not valid.
    """
    keys = Keys(settings.prefix)
    check_url(settings.redis_url or LOCALHOST)
    check_broker_url(settings.broker_url or settings.redis_url or LOCALHOST)
    address = settings.broker_url or settings.redis_url or LOCALHOST
    url = broker_url(address)
    amqp = is_amqp(url)
    transport, options = _transport(address, amqp)
    app = kind("perdure", broker=url, set_as_current=False)
    app.conf.update(
        # Set under these names as well, because CELERY_BROKER_URL in the environment, meant for
        # another app, overrides the plain name.
        broker_read_url=url,
        broker_write_url=url,
        broker_transport=transport,
        broker_use_ssl=broker_ssl(address),
        broker_transport_options={
            **options,
            "guard_prefix": settings.prefix,
            "guard_letters": DeadLetters(
                settings.redis_url or LOCALHOST, settings.prefix
            ).put_aside,
            **_fast_options(settings),
        },
        worker_consumer="perdure.worker.runtime.consumer:Consumer",
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=2,
        broker_heartbeat=10,
        # RabbitMQ closes the channel of a round that takes longer than its consumer_timeout. That
        # must not end the worker.
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
    return app


def publishing_app(settings: Settings) -> OwnApp:
    """Return a Celery app that publishes the messages of rounds, but cannot run rounds."""
    app = celery_app(settings)

    def refuse(*_: object) -> None:
        raise NotImplementedError("this app only publishes; run rounds with perdure.app")

    for name in TASKS.values():
        app.task(refuse, name=name, base=RoundTask, shared=False)
    return app


def _transport(address: str, amqp: bool) -> tuple[str, dict[str, Any]]:
    """Return the kombu transport that validates a broker's messages, and its transport options.

    Args:
        address: The URL of the broker.
        amqp: Whether the broker is RabbitMQ.
    """
    if amqp:
        return AMQP_TRANSPORT, AMQP_OPTIONS
    if not is_sentinel(address):
        return REDIS_TRANSPORT, REDIS_OPTIONS
    service = parse_sentinels(address)
    service_options = {
        "master_name": service.master,
        "guard_sentinels": service.sentinels,
        "sentinel_kwargs": sentinel_options(service),
    }
    return SENTINEL_TRANSPORT, {**SENTINEL_OPTIONS, **service_options}


def _fast_options(settings: Settings) -> dict[str, Any]:
    """Return the transport option for faster validation. Empty if the setting ``fetch`` is off."""
    if not settings.fetch:
        return {}
    from perdure.worker.messaging.fast.shape import Shapes

    return {"guard_validate": Shapes().validate}
