"""URLs of brokers: their form for kombu, and the Redis database that they name.

A broker's URL has one of the forms of a state server's URL (``perdure.worker.urls``), or begins
with amqp:// or amqps:// for RabbitMQ. kombu has another form for a Redis URL (``broker_url`` and
``redis_url`` convert between the two).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from perdure.worker.urls import (
    SENTINEL_PORT,
    SentinelUrl,
    is_sentinel,
    parse_sentinels,
    query_of,
)

#: Schemes that kombu uses for RabbitMQ.
AMQP_SCHEMES = ("amqp", "amqps", "pyamqp")
#: kombu's URL schemes for a Redis server, each with redis-py's scheme.
KOMBU_SCHEMES = {
    "redis": "redis",
    "rediss": "rediss",
    "valkey": "redis",
    "valkeys": "rediss",
    "redis+socket": "unix",
    "perdure+socket": "unix",
}
#: Query parameters that kombu and redis-py spell differently.
KOMBU_PARAMETERS = {"virtual_host": "db"}


def is_amqp(urls: str | Sequence[str] | None) -> bool:
    """Return whether Celery's broker setting names RabbitMQ.

    Args:
        urls: One URL, several URLs with semicolons between them, or a sequence of URLs. Celery
            fails over between them, so all are of one kind, and only the first is checked. None is
            not RabbitMQ.
    """
    first = urls.partition(";")[0] if isinstance(urls, str) else next(iter(urls or ()), "")
    return first.partition("://")[0] in AMQP_SCHEMES


def broker_url(url: str) -> str:
    """Return the URL of a state server or broker in kombu's form.

    A URL that kombu reads as it is, is returned unchanged. In the URL of a Unix socket, user and
    password move before the path, because kombu expects them there. An ``amqps://`` URL loses its
    ``ssl_...`` arguments, which Celery's setting ``broker_ssl`` replaces. Of several Sentinels, the
    result has only the first. Perdure's transport gets the others as an option
    (worker/messaging/transports/sentinel.py).
    """
    if is_sentinel(url):
        return parse_sentinels(url).kombu_url
    parts = urlsplit(url)
    if parts.scheme == "amqps":
        # kombu passes a URL's ssl_... on under names that py-amqp does not know. broker_ssl sets
        # them instead.
        arguments = [
            (name, value)
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
            if not name.startswith("ssl_")
        ]
        return parts._replace(query=urlencode(arguments)).geturl()
    if parts.scheme != "unix":
        return url
    query = query_of(url)
    query["virtual_host"] = query.pop("db", "0")
    user, password = query.pop("username", ""), query.pop("password", "")
    netloc = f"{quote(user, '')}:{quote(password, '')}@" if user or password else parts.netloc
    return f"perdure+socket://{netloc}{parts.path}?{urlencode(query)}"


def redis_url(broker: str) -> str:
    """Return the URL of a Redis broker in redis-py's form.

    Args:
        broker: The URL in kombu's form. It is not the URL of a Sentinel.
    """
    parts = urlsplit(broker)
    query = {KOMBU_PARAMETERS.get(name, name): value for name, value in parse_qsl(parts.query)}
    if "ssl_cert_reqs" in query:
        query["ssl_cert_reqs"] = query["ssl_cert_reqs"].removeprefix("CERT_").lower()
    return f"{KOMBU_SCHEMES[parts.scheme]}://{parts.netloc}{parts.path}" + (
        f"?{urlencode(query)}" if query else ""
    )


def sentinels_of_broker(urls: str, options: Mapping[str, Any]) -> SentinelUrl | None:
    """Return the Sentinel service that Celery's broker URL names.

    Args:
        urls: The setting of Celery: ``sentinel://host;sentinel://host/DATABASE``.
        options: kombu's transport options. They have the name of the master (``master_name``).

    Returns:
        The service. None if a URL is malformed or is not a ``sentinel://`` URL, or if the options
        have no master.
    """
    try:
        parts = [urlsplit(url) for url in urls.split(";")]
        first, master = parts[0], options.get("master_name")
        if not isinstance(master, str) or any(part.scheme != "sentinel" for part in parts):
            return None
        own = options.get("sentinel_kwargs")
        own = own if isinstance(own, Mapping) else {}
        service = SentinelUrl(
            sentinels=tuple(
                (part.hostname or "localhost", part.port or SENTINEL_PORT) for part in parts
            ),
            master=master,
            database=int(first.path.strip("/") or 0),
            username=unquote(first.username or "") or None,
            password=unquote(first.password) if first.password is not None else None,
            sentinel_username=own.get("username"),
            sentinel_password=own.get("password"),
        )
    except ValueError:
        return None
    own_sentinels = options.get("guard_sentinels")
    return replace(service, sentinels=tuple(own_sentinels)) if own_sentinels else service


def is_same_database(state_url: str, urls: str, options: Mapping[str, Any]) -> bool:
    """Return whether the state server and the broker share a Redis database.

    Hosts are compared by name, except that ``localhost`` is 127.0.0.1. For Sentinel services, one
    common Sentinel is enough if the master's name and the database are also equal.

    Args:
        state_url: The state server's URL, in redis-py's form or that of a Sentinel service.
        urls: The broker's URL, or several URLs with semicolons between them.
        options: kombu's transport options.

    Returns:
        False if the broker is not a Redis. False also for several URLs, unless all of them are
            ``sentinel://`` URLs.
    """
    state = (
        _identities(parse_sentinels(state_url))
        if is_sentinel(state_url)
        else _databases(broker_url(state_url), {})
    )
    return not state.isdisjoint(_databases(urls, options))


def _identities(service: SentinelUrl) -> set[tuple[str, ...]]:
    """Return keys that identify the database of a Sentinel service: one key for each Sentinel.

    Two services that share a key have the same database, because a Sentinel knows only one master
    of each name.
    """
    return {
        ("sentinel", _one_name(host), str(port), service.master, str(service.database))
        for host, port in service.sentinels
    }


def _databases(urls: str, options: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """Return keys that identify the Redis database of a broker URL in kombu's form.

    The set is empty if the URL names no Redis database.

    Args:
        options: kombu's transport options.
    """
    if urls.startswith("sentinel://"):
        service = sentinels_of_broker(urls, options)
        return set() if service is None else _identities(service)
    database = _database(urls)
    return set() if database is None else {database}


def _database(url: str) -> tuple[str, ...] | None:
    try:
        parts = urlsplit(url)
        transport, _, kind = parts.scheme.rpartition("+")
        query = query_of(url)
        if kind == "socket" and transport in ("redis", "perdure"):
            return "socket", parts.path, query.get("virtual_host", "0")
        if kind in ("redis", "rediss", "valkey", "valkeys"):
            database = query.get("db") or query.get("virtual_host") or parts.path.strip("/") or "0"
            host = _one_name(parts.hostname or "localhost")
            return "tcp", host, str(parts.port or 6379), database
    except ValueError:
        return None
    return None


def _one_name(host: str) -> str:
    """Return a host name, with ``localhost`` replaced by ``127.0.0.1``."""
    return "127.0.0.1" if host == "localhost" else host
