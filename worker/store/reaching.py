"""Reaching a server: a client for a URL, and for a service of Sentinels one that follows the master.

Whoever was the master and is no more is as good as gone: the connection is closed, and the next one goes where the Sentinels
say. redis-py does so for READONLY; the other ways in which such a server gives itself away are added here.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import redis
from redis.backoff import NoBackoff
from redis.connection import SSLConnection, parse_url
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool, SentinelManagedConnection

from worker.sentinel_url import SentinelUrl, is_sentinel, read

#: Seconds for one answer of a Sentinel. The one asked first may be on the machine that died; there are others.
SENTINEL_PATIENCE = 1.0
#: What a server says that is, or may be, the master no more: a client that waited for it is sent away (UNBLOCKED), it has lost its
#: own master (MASTERDOWN), or its replicas, perhaps to another (NOREPLICAS). Asked again, the Sentinels name the same or another one.
DEMOTED = ("UNBLOCKED", "MASTERDOWN", "NOREPLICAS")


class FollowingConnection(SentinelManagedConnection):
    """A connection to the master of the moment."""

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send, over a connection that stands.

        redis-py 8.1 sends again after an error over a connection to where it last was: to the master that is gone, for as long as it
        sends again. It asks the Sentinels only for the next command.
        """
        if not self._sock:
            self._connect_retry()  # type: ignore[no-untyped-call]
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

    def read_response(self, disable_decoding: bool = False, *, disconnect_on_error: bool | None = True, **options: Any) -> Any:
        """The server's answer; raises ConnectionError where it is the master no more.

        Without ``disconnect_on_error``, which redis-py has off here alone, an answer that came too late would be read as the next one's.
        """
        try:
            return super().read_response(disable_decoding, disconnect_on_error=disconnect_on_error, **options)
        except redis.ResponseError as error:
            if not str(error).startswith(DEMOTED):
                raise
            self.disconnect()  # type: ignore[no-untyped-call]
            raise redis.ConnectionError(f"this server may be the master no more: {error}") from error


class FollowingSSLConnection(FollowingConnection, SSLConnection):
    """The same, encrypted."""


class Sentinels(Sentinel):
    """redis-py's, for many threads: it reorders its list of Sentinels in place, and two threads at once can make one of them vanish."""

    def discover_master(self, service_name: str) -> Any:
        """Host and port of the master; raises MasterNotFoundError."""
        asking = copy.copy(self)
        asking.sentinels = list(self.sentinels)
        try:
            return Sentinel.discover_master(asking, service_name)  # type: ignore[no-untyped-call]
        except MasterNotFoundError as error:
            places = ", ".join("{host}:{port}".format_map(one.connection_pool.connection_kwargs) for one in asking.sentinels)
            raise MasterNotFoundError(f"no Sentinel of {places} answers and names a living master {service_name!r}") from error
        finally:
            self.sentinels = asking.sentinels


def client_of(url: str, **options: Any) -> redis.Redis:
    """A client; nothing is connected yet.

    Args:
        options: redis-py's, for the connections to the server.
    """
    if not is_sentinel(url):
        return redis.Redis.from_url(url, **options)
    service = read(url)
    pool = pool_of(
        service.master,
        sentinels_of(service.sentinels, sentinel_options(service)),
        connection_class=FollowingSSLConnection if service.encrypted else FollowingConnection,
        db=service.database,
        username=service.username,
        password=service.password,
        **ssl_options(service),
        **options,
    )
    return redis.Redis.from_pool(pool)


def pool_of(master: str, sentinels: Sentinels, **options: Any) -> SentinelConnectionPool:
    """Connections to the master, with redis-py's options."""
    return SentinelConnectionPool(master, sentinels, **options)  # type: ignore[no-untyped-call]


def close(client: redis.Redis) -> None:
    """Close its connections, those to the Sentinels too."""
    client.close()
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    if manager is not None:
        manager.close()


def sentinels_of(addresses: Sequence[tuple[str, int]], options: Mapping[str, Any]) -> Sentinels:
    """Sentinels at these addresses, with redis-py's options for connections to them."""
    return Sentinels(addresses, sentinel_kwargs=dict(options))  # type: ignore[no-untyped-call]


def sentinel_options(service: SentinelUrl) -> dict[str, Any]:
    """redis-py's options for the connections to the Sentinels.

    Without retries: by default redis-py asks a Sentinel that is gone ten times, with waits that grow to ten seconds, before the next.
    """
    return {
        "username": service.sentinel_username,
        "password": service.sentinel_password,
        "socket_timeout": SENTINEL_PATIENCE,
        "socket_connect_timeout": SENTINEL_PATIENCE,
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": True,
        **({"ssl": True, **ssl_options(service)} if service.encrypted else {}),
    }


def ssl_options(service: SentinelUrl) -> Mapping[str, Any]:
    """The URL's ``ssl_...`` as redis-py reads them; raises ValueError where one does not read."""
    told = parse_url(f"rediss://?{urlencode(service.ssl)}")  # type: ignore[no-untyped-call]
    return {name: value for name, value in told.items() if name.startswith("ssl_")}
