"""The broker of an app: its TLS options, its queues, and whether it is on the state server.

If no ``redis_url`` is set, the runs are stored in the app's broker, provided that it is one Redis
database.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kombu import Exchange, Queue

from perdure.worker.broker_urls import (
    AMQP_SCHEMES,
    KOMBU_SCHEMES,
    is_same_database,
    redis_url,
    sentinels_of_broker,
)
from perdure.worker.errors import InvalidSettings
from perdure.worker.settings import Settings
from perdure.worker.store.keys import Keys
from perdure.worker.store.refusals import is_denied
from perdure.worker.store.urls import check_url
from perdure.worker.urls import STATE_SCHEMES, TORN, host_of, is_torn, place_of, query_of, scheme_of

if TYPE_CHECKING:
    from celery import Celery

logger = logging.getLogger("perdure.install")

#: Words that redis-py reads as false in a URL, in capitals. Any other word leaves a check on.
FALSE_WORDS = ("0", "F", "FALSE", "N", "NO")
#: Values of ``ssl_cert_reqs``, as kombu and redis-py spell them.
CERT_REQS = {
    "required": ssl.CERT_REQUIRED,
    "optional": ssl.CERT_OPTIONAL,
    "none": ssl.CERT_NONE,
    "CERT_REQUIRED": ssl.CERT_REQUIRED,
    "CERT_OPTIONAL": ssl.CERT_OPTIONAL,
    "CERT_NONE": ssl.CERT_NONE,
}
#: Arguments of an ``amqps://`` URL that name files: the trusted authorities, the client's
#: certificate and its key.
SSL_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
#: Milliseconds that RabbitMQ lets a worker hold a message before it closes the channel: 30 days.
#: Its default of 30 minutes is shorter than some rounds, and the lease already watches over a
#: round. RabbitMQ 3.12 and later accept this per queue. Older versions only have a server setting.
LONGEST_ROUND = 30 * 86_400_000
#: Milliseconds without a consumer after which RabbitMQ deletes a queue. Nothing is lost: the queue
#: holds only copies of messages.
UNUSED_MS = 3_600_000


def broker_ssl(url: str) -> bool | dict[str, Any]:
    """Return Celery's ``broker_use_ssl`` for a broker URL.

    With TLS, the server must prove its identity, unless ``ssl_cert_reqs=none`` or
    ``ssl_check_hostname=false`` in the URL switches a check off. The setting is needed because
    kombu reads it from the URL's scheme only if the transport comes from the URL as well, and
    because kombu does not check the host name of RabbitMQ.

    Returns:
        kombu's TLS options. False for a URL without TLS.
    """
    if url.partition("://")[0] in ("rediss", "rediss+sentinel"):
        # An ssl_... argument in the URL overrides this. redis-py has the same default.
        return {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    if scheme_of(url) != "amqps":
        return False
    query = query_of(url)
    required = CERT_REQS[query.get("ssl_cert_reqs", "required")]
    named = required is not ssl.CERT_NONE and _checks_host_name(query)
    # Without the key kombu uses no host name. With None it would take the URL's.
    name_of_server = {"server_hostname": host_of(url)} if named else {}
    files = {name.removeprefix("ssl_"): query[name] for name in SSL_FILES if name in query}
    return {"cert_reqs": required, **name_of_server, **files}


def is_verified(url: str) -> bool:
    """Return whether a URL requires a verified server identity.

    It does unless it switches off the check of the certificate or of the host name.
    """
    query = query_of(url)
    required = query.get("ssl_cert_reqs", "required") in ("required", "CERT_REQUIRED")
    return required and _checks_host_name(query)


def _checks_host_name(query: Mapping[str, str]) -> bool:
    """Return whether a URL requires a host name check.

    Args:
        query: The arguments of the URL.
    """
    return query.get("ssl_check_hostname", "true").upper() not in FALSE_WORDS


def check_broker_url(url: str) -> None:
    """Raise InvalidSettings unless ``url`` can name a broker.

    Perdure must support the broker. kombu would connect to a Redis on localhost for an
    unknown scheme. The text of the error never contains the URL's password.
    """
    scheme, slashes, _ = url.partition("://")
    fault = ""
    if is_torn(url):
        fault = TORN
    elif scheme in STATE_SCHEMES:
        check_url(url)
    elif scheme not in AMQP_SCHEMES or not slashes:
        schemes = ", ".join(f"{name}://" for name in (*STATE_SCHEMES, *AMQP_SCHEMES[:2]))
        fault = f"it should begin with one of {schemes}"
    elif scheme == "amqps" and (unknown := _unknown_ssl(url)):
        fault = (
            f"{unknown}; known are ssl_cert_reqs (required, optional, none), "
            f"ssl_check_hostname, {', '.join(SSL_FILES)}"
        )
    elif ";" in url:
        fault = (
            "it names several; only an app of your own may fail over between them "
            "(docs/guides/celery-app.md)"
        )
    if fault:
        place = place_of(url) if slashes else "a text without ://"
        raise InvalidSettings(
            f"broker_url (PERDURE_BROKER_URL): {place!r} is no URL of a broker: {fault}"
        )


def _unknown_ssl(url: str) -> str | None:
    query = query_of(url)
    for name in query:
        if name.startswith("ssl_") and name not in (
            *SSL_FILES,
            "ssl_cert_reqs",
            "ssl_check_hostname",
        ):
            return f"its argument {name} is not known"
    return (
        "its ssl_cert_reqs is not known"
        if query.get("ssl_cert_reqs", "required") not in CERT_REQS
        else None
    )


def is_fused(app: Celery, state_url: str) -> bool:
    """Return whether Lua scripts can push to the broker.

    They can if the broker stores its lists in the database of the runs, under the names of the
    queues.

    Args:
        state_url: The URL of the state server.
    """
    options = app.conf.broker_transport_options or {}
    urls = app.conf.broker_write_url or app.conf.broker_url
    if not isinstance(urls, str) or options.get("global_keyprefix"):
        return False
    return is_same_database(state_url, urls, options)


def queue_of_set(name: str, amqp: bool) -> Queue:
    """Return a flow set's queue as a kombu object.

    Args:
        name: The name of the queue (``Keys.queue_of_set``).
        amqp: Whether the broker is RabbitMQ. RabbitMQ deletes the queue if no worker has consumed
            it for ``UNUSED_MS``.
    """
    arguments = (
        {"x-queue-type": "quorum", "x-consumer-timeout": LONGEST_ROUND, "x-expires": UNUSED_MS}
        if amqp
        else None
    )
    return Queue(name, Exchange(""), routing_key=name, queue_arguments=arguments)


def queues_of(keys: Keys, amqp: bool) -> list[Queue]:
    """Return the queues of rounds as kombu objects.

    There is one per role.

    Args:
        amqp: Whether the broker is RabbitMQ. There they are quorum queues, which are replicated, so
            that the loss of one node does not lose them.
    """
    arguments: dict[str, Any] | None = (
        {"x-queue-type": "quorum", "x-consumer-timeout": LONGEST_ROUND} if amqp else None
    )
    return [
        Queue(name, Exchange(name, type="direct"), routing_key=name, queue_arguments=arguments)
        for name in keys.queue_names
    ]


def may_consume(app: Celery, lists: Sequence[str]) -> bool:
    """Return whether the app's login at its broker may pop from all these Redis lists.

    One list that it may not pop from would stop the worker's whole consumer. True also if the
    broker cannot be asked: the worker's own connection reports that.
    """
    with app.connection_for_read() as connection:
        try:
            for name in lists:
                connection.default_channel.client.execute_command("RPOP", name, 0)
        except Exception as error:
            if is_denied(error):
                return False
            # The server is away or broken. The worker's own connection reports that repeatedly.
            logger.debug("could not check whether %s may be consumed: %s", name, error)
    return True


def with_state_server(settings: Settings, app: Celery) -> Settings:
    """Return the settings with the URLs of the state server and of the broker.

    If the settings name no state server, the app's broker is the state server. If they name one and
    it is another server than the app's broker, ``broker_url`` is set to the app's broker, unless it
    is set already. So a client with these settings publishes to the broker from which the app's
    workers consume.

    Raises:
        InvalidSettings: No state server is named, and the broker is no Redis, or one URL cannot
            describe the broker.
    """
    url, options, fault = app.conf.broker_write_url, app.conf.broker_transport_options or {}, ""
    if settings.redis_url is not None:
        elsewhere = (
            isinstance(url, str)
            and settings.broker_url is None
            and not is_fused(app, settings.redis_url)
        )
        return settings.model_copy(update={"broker_url": url}) if elsewhere else settings
    service = sentinels_of_broker(url, options) if isinstance(url, str) else None
    if service is not None and not app.conf.broker_use_ssl:
        return settings.model_copy(update={"redis_url": str(service)})
    if not isinstance(url, str) or (";" in url and service is None):
        fault = "names no single broker"
    elif scheme_of(url) not in KOMBU_SCHEMES and service is None:
        fault = f"is {place_of(url)}, which is no Redis"
    elif app.conf.broker_use_ssl and (service is not None or scheme_of(url) == "redis"):
        fault = "is encrypted by broker_use_ssl, which a URL cannot express"
    if fault:
        raise InvalidSettings(
            "the state of runs needs a Redis or Valkey server, and the broker of Celery app "
            f"{app.main!r} {fault}; set redis_url (PERDURE_REDIS_URL, config/worker.toml, "
            "or install(app, Settings(redis_url=...)))"
        )
    return settings.model_copy(update={"redis_url": redis_url(url)})
