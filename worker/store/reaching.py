"""Reaching a server: a client for a URL, and for a service of Sentinels one that follows the master.

Whoever was the master and is no more is as good as gone: the connection is closed, and the next one goes where the Sentinels
say. redis-py does so for READONLY; the other ways in which such a server gives itself away are added here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlencode

import redis
from redis.backoff import NoBackoff
from redis.connection import SSLConnection, parse_url
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool, SentinelManagedConnection

from worker.sentinel_url import SentinelUrl, is_sentinel, read

#: Seconds for one answer of a Sentinel. The one asked first may be on the machine that died; there are others. All of three together take
#: less than a heartbeat may be late.
SENTINEL_PATIENCE = 0.5
#: How often at most a process asks the Sentinels, before it sends a command, whether the master is still the same; and after an answer
#: that took its time, so that Sentinels which are away hold up no heartbeat for long.
LOOK_SECONDS, SLOW_LOOK_SECONDS = 1.0, 5.0
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
        stands: Any = self._sock
        if not stands:
            self._connect_retry()  # type: ignore[no-untyped-call]
        elif check_health and self._left_behind():
            self.disconnect()  # type: ignore[no-untyped-call]
            raise redis.ConnectionError("the Sentinels have named another master")
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

    def _left_behind(self) -> bool:
        """Whether another is the master by now. The old one is told some ten seconds later, and until then confirms what will be undone."""
        known = self.connection_pool
        now = time.monotonic()
        if now >= getattr(known, "looks_again", 0.0):
            known.looks_again = now + LOOK_SECONDS  # for the other threads
            with suppress(redis.ConnectionError, redis.TimeoutError):  # nobody knows better than this connection, which stands
                known.get_master_address()
            after = time.monotonic()
            known.looks_again = after + (LOOK_SECONDS if after - now < SENTINEL_PATIENCE else SLOW_LOOK_SECONDS)
        return bool((self.host, self.port) != known.master_address)

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
    """redis-py's, for many threads: that one reorders its list of Sentinels in place, and two threads at once can make one of them vanish.

    While no Sentinel answers at all, the master is who it was: that they are away must not stop work that the master does.
    """

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Host and port of the master; raises MasterNotFoundError."""
        answered, asked = False, list(self.sentinels)
        for one in asked:
            try:
                state: Any = cast(dict[str, Any], one.sentinel_masters()).get(service_name)
            except (redis.ConnectionError, redis.TimeoutError):
                continue
            answered = True
            if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                self.sentinels = [one, *(other for other in asked if other is not one)]  # who answered is asked first
                self._known: tuple[str, int] = (state["ip"], state["port"])
                return self._known
        if not answered and hasattr(self, "_known"):
            return self._known
        places = ", ".join("{host}:{port}".format_map(one.connection_pool.connection_kwargs) for one in asked)
        raise MasterNotFoundError(f"no Sentinel of {places} answers and names a living master {service_name!r}")


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


def answers(connection: Any, within: float) -> bool:
    """Whether the server answers a new connection of redis-py, each step of it within so many seconds; closes the connection."""
    connection.socket_timeout = connection.socket_connect_timeout = within
    connection.retry = Retry(NoBackoff(), 0)
    try:
        connection.send_command("PING")
        connection.read_response()
    except redis.RedisError:
        return False
    finally:
        connection.disconnect()
    return True
