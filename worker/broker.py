"""Broker: where Celery's messages go, and whether that is the database that the runs live in."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from kombu import Exchange, Queue

from worker import sentinel_url
from worker.errors import InvalidSettings
from worker.places import TORN, is_torn, place_of
from worker.sentinel_url import SentinelUrl, is_sentinel, read
from worker.store.address import SCHEMES, check_url
from worker.store.connection import is_denied
from worker.store.keys import Keys

if TYPE_CHECKING:
    from celery import Celery

logger = logging.getLogger("holdfast.install")

#: Schemes of kombu's that mean RabbitMQ.
AMQP = ("amqp", "amqps", "pyamqp")
#: What ``ssl_cert_reqs`` may say, as kombu and redis-py spell it.
CERT_REQS = {
    "required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE,
    "CERT_REQUIRED": ssl.CERT_REQUIRED, "CERT_OPTIONAL": ssl.CERT_OPTIONAL, "CERT_NONE": ssl.CERT_NONE,
}  # fmt: skip
#: Arguments of an ``amqps://`` URL that name files: the authorities that are trusted, our own certificate and its key.
SSL_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
#: How long RabbitMQ lets a worker keep a message before it takes the worker for dead (its default, 30 minutes, is shorter than
#: some rounds): a round's lease is what watches over it. RabbitMQ 3.12 and later heed it; before, it is the server's to set.
LONGEST_ROUND = 30 * 86_400_000
#: A queue that no worker has consumed for so long (ms) is deleted: nothing but a message's copy is in it.
UNUSED_MS = 3_600_000


def broker_url(url: str) -> str:
    """The state server's URL as kombu spells it.

    A unix socket's differs: there, user and password stand in front only. Of several Sentinels it names the first; the guard's
    transport is told of the others (worker/guard/sentinel.py).
    """
    if is_sentinel(url):
        return _kombus(read(url))
    parts = urlsplit(url)
    if parts.scheme == "amqps":
        # kombu hands a URL's ssl_... on under names that AMQP does not know; they are said by broker_ssl.
        kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if not name.startswith("ssl_")]
        return parts._replace(query=urlencode(kept)).geturl()
    if parts.scheme != "unix":
        return url
    query = dict(parse_qsl(parts.query))
    query["virtual_host"] = query.pop("db", "0")
    user, password = query.pop("username", ""), query.pop("password", "")
    netloc = f"{quote(user, '')}:{quote(password, '')}@" if user or password else parts.netloc
    return f"holdfast+socket://{netloc}{parts.path}?{urlencode(query)}"


def broker_ssl(url: str) -> bool | dict[str, Any]:
    """Celery's ``broker_use_ssl`` for this URL, as it is given: who answers an encrypted connection must prove who it is.

    kombu takes it from a URL's scheme only where the transport comes from there as well, and for RabbitMQ checks no host name.
    ``ssl_cert_reqs=none`` and ``ssl_check_hostname=false`` in the URL say otherwise.
    """
    if url.partition("://")[0] in ("rediss", "rediss+sentinel"):
        return {"ssl_cert_reqs": ssl.CERT_REQUIRED}  # an ssl_... in the URL takes its place, and redis-py's default is the same
    parts = urlsplit(url)
    if parts.scheme != "amqps":
        return False
    query = dict(parse_qsl(parts.query))
    required = CERT_REQS[query.get("ssl_cert_reqs", "required")]
    named = required is not ssl.CERT_NONE and query.get("ssl_check_hostname", "true").lower() != "false"
    name_of_server = {"server_hostname": parts.hostname} if named else {}  # None would mean the URL's to kombu
    files = {name.removeprefix("ssl_"): query[name] for name in SSL_FILES if name in query}
    return {"cert_reqs": required, **name_of_server, **files}


def is_verified(url: str) -> bool:
    """Whether who answers at this URL of an encrypted connection must prove who it is."""
    query = dict(parse_qsl(urlsplit(url).query))
    named = query.get("ssl_check_hostname", "true").lower() not in ("false", "0", "no", "off", "f", "n")
    return named and query.get("ssl_cert_reqs", "required") in ("required", "CERT_REQUIRED")


def is_amqp(urls: str | Sequence[str] | None) -> bool:
    """Whether the broker is RabbitMQ. Celery's settings may name several to fail over between, all of a kind."""
    first = urls.partition(";")[0] if isinstance(urls, str) else next(iter(urls or ()), "")
    return first.partition("://")[0] in AMQP


def check_broker_url(url: str) -> None:
    """Raise InvalidSettings unless this can be the URL of a broker that ``make_app`` has a guard for; a password is not repeated.

    kombu would take what it does not know for a Redis on localhost.
    """
    scheme, slashes, _ = url.partition("://")
    fault = ""
    if is_torn(url):
        fault = TORN
    elif scheme in SCHEMES:
        check_url(url)
    elif scheme not in AMQP or not slashes:
        fault = f"it should begin with one of {', '.join(f'{name}://' for name in (*SCHEMES, *AMQP[:2]))}"
    elif scheme == "amqps" and (unknown := _unknown_ssl(url)):
        fault = f"{unknown}; known are ssl_cert_reqs (required, optional, none), ssl_check_hostname, {', '.join(SSL_FILES)}"
    elif ";" in url:
        fault = "it names several; only an app of your own may fail over between them (docs/install.md)"
    if fault:
        place = place_of(url) if slashes else "a text without ://"
        raise InvalidSettings(f"broker_url (HOLDFAST_BROKER_URL): {place!r} is no URL of a broker: {fault}")


def _unknown_ssl(url: str) -> str | None:
    query = dict(parse_qsl(urlsplit(url).query))
    for name in query:
        if name.startswith("ssl_") and name not in (*SSL_FILES, "ssl_cert_reqs", "ssl_check_hostname"):
            return f"its argument {name} is not known"
    return "its ssl_cert_reqs is not known" if query.get("ssl_cert_reqs", "required") not in CERT_REQS else None


def is_fused(app: Celery, state_url: str) -> bool:
    """Whether the scripts can push the app's messages themselves: its lists are in the runs' own database, under their own names."""
    options = app.conf.broker_transport_options or {}
    urls = app.conf.broker_write_url or app.conf.broker_url
    if not isinstance(urls, str) or options.get("global_keyprefix"):
        return False
    state = set(sentinel_url.identities(read(state_url))) if is_sentinel(state_url) else _databases(broker_url(state_url), {})
    return not state.isdisjoint(_databases(urls, options))


def queue_of_set(name: str, amqp: bool) -> Queue:
    """Celery's queue of the workers that play one set of flows. RabbitMQ deletes it where none has consumed it for a while."""
    arguments = {"x-queue-type": "quorum", "x-consumer-timeout": LONGEST_ROUND, "x-expires": UNUSED_MS} if amqp else None
    return Queue(name, Exchange(""), routing_key=name, queue_arguments=arguments)


def queues_of(keys: Keys, amqp: bool) -> list[Queue]:
    """Celery's queues for rounds, one a role. On RabbitMQ they are quorum queues: replicated, and safe from the loss of a node."""
    arguments: dict[str, Any] | None = {"x-queue-type": "quorum", "x-consumer-timeout": LONGEST_ROUND} if amqp else None
    return [Queue(name, Exchange(name, type="direct"), routing_key=name, queue_arguments=arguments) for name in keys.queue_names]


def may_consume(app: Celery, lists: Sequence[str]) -> bool:
    """Return whether the login of a Redis broker may pop from these lists. One refused list would stop the worker's whole consumer."""
    with app.connection_for_read() as connection:
        try:
            for name in lists:
                connection.default_channel.client.execute_command("RPOP", name, 0)
        except Exception as error:
            if is_denied(error):
                return False
            # Away, or not what it should be: the worker's own connection says so, again and again.
            logger.debug("not known whether %s may be consumed: %s", name, error)
    return True


def service_of(urls: str, options: Mapping[str, Any]) -> SentinelUrl | None:
    """The service that a broker is, as kombu spells one; None where it is none that Sentinels watch over."""
    try:
        service = sentinel_url.kombus(urls, options)
    except ValueError:
        return None
    ours = options.get("guard_sentinels")
    return replace(service, sentinels=tuple(ours)) if ours else service


def _kombus(service: SentinelUrl) -> str:
    user = f"{quote(service.username or '', '')}:{quote(service.password, '')}@" if service.password is not None else ""
    return f"sentinel://{user}{service.first}/{service.database}{'?' + urlencode(service.ssl) if service.ssl else ''}"


def _databases(urls: str, options: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """What tells a Redis database from others, of URLs as kombu spells them; empty where it is none of Redis's."""
    if urls.startswith("sentinel://"):
        service = service_of(urls, options)
        return set() if service is None else set(sentinel_url.identities(service))
    database = _database(urls)
    return set() if database is None else {database}


def _database(url: str) -> tuple[str, ...] | None:
    try:
        parts = urlsplit(url)
        transport, _, kind = parts.scheme.rpartition("+")
        query = dict(parse_qsl(parts.query))
        if kind == "socket" and transport in ("redis", "holdfast"):
            return "socket", parts.path, query.get("virtual_host", "0")
        if kind in ("redis", "rediss", "valkey", "valkeys"):
            host = parts.hostname or "localhost"
            database = query.get("db") or query.get("virtual_host") or parts.path.strip("/") or "0"
            return "tcp", "127.0.0.1" if host == "localhost" else host, str(parts.port or 6379), database
    except ValueError:
        return None
    return None
