"""Redis clients that follow the master of a Sentinel service.

A connection to a server that is no longer the master is closed. The next connection asks the
Sentinels for the master. redis-py does so only after READONLY. This module also does so after other
error replies of a former master. It also reads each Sentinel's view of a service.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlencode

import redis
from redis.backoff import NoBackoff
from redis.connection import SSLConnection, parse_url
from redis.retry import Retry
from redis.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
)

from perdure.worker.urls import SentinelUrl, is_sentinel, parse_sentinels

#: Seconds to wait for one Sentinel's reply. The first one asked may be on the machine that died.
#: Three Sentinels together take less time than a heartbeat may be late.
SENTINEL_PATIENCE = 0.5
#: Minimum seconds between two questions of a process to the Sentinels whether the master has
#: changed. The longer time applies after a slow reply, so that absent Sentinels do not delay
#: heartbeats.
LOOK_SECONDS, SLOW_LOOK_SECONDS = 1.0, 5.0
#: Replies of a server that may no longer be the master. UNBLOCKED: it became a replica while a
#: client waited. MASTERDOWN: it lost its own master. NOREPLICAS: its replicas left it, perhaps for
#: another master. The Sentinels, when asked again, name the same master or another.
DEMOTED = ("UNBLOCKED", "MASTERDOWN", "NOREPLICAS")
#: The client's name and version that a connection reports. redis-py would search all installed
#: packages for its version with each client, which takes longer than connecting.
LIBRARY = redis.DriverInfo(lib_version=redis.__version__)


class FollowingConnection(SentinelManagedConnection):
    """A connection to the current master of a Sentinel service.

    If it may be connected to a former master, it is closed and raises ConnectionError.
    """

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send a command to the current master of the service.

        A closed connection is first connected to the current master. redis-py 8.1 would connect it
        to the former master again, and look up the new master only when the next command is sent.
        So each retry of this command would go to the former master.

        Args:
            check_health: whether an open connection is checked. If False, the command is sent to
                the server of the connection, even if that is no longer the master.

        Raises:
            redis.ConnectionError: the Sentinels name another master than the server of the open
                connection. The command was not sent, and the connection is closed.
        """
        socket: Any = self._sock
        if not socket:
            self._connect_retry()  # type: ignore[no-untyped-call]
        elif check_health and self._left_behind():
            self.disconnect()  # type: ignore[no-untyped-call]
            raise redis.ConnectionError("the Sentinels have named another master")
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

    def _left_behind(self) -> bool:
        """Return whether another server than this connection's is the master now.

        The Sentinels are asked at most once per ``LOOK_SECONDS`` for all connections of a pool. If
        no Sentinel answers, the last known master counts. The old master itself notices about ten
        seconds later that it was replaced. Until then it confirms writes that will be lost.
        """
        pool = self.connection_pool
        now = time.monotonic()
        if now >= getattr(pool, "looks_again", 0.0):
            pool.looks_again = now + LOOK_SECONDS  # Set first, so that no other thread asks too.
            # If no Sentinel answers, the open connection remains the best guess.
            with suppress(redis.ConnectionError, redis.TimeoutError):
                pool.get_master_address()
            after = time.monotonic()
            pool.looks_again = after + (
                LOOK_SECONDS if after - now < SENTINEL_PATIENCE else SLOW_LOOK_SECONDS
            )
        return bool((self.host, self.port) != pool.master_address)

    def read_response(
        self,
        disable_decoding: bool = False,
        *,
        disconnect_on_error: bool | None = True,
        **options: Any,
    ) -> Any:
        """Read the server's reply to a command, and return it.

        Args:
            disconnect_on_error: whether to close the connection after an error of the connection.
                It is True here. redis-py has False in its class for Sentinels, and then a late
                reply would be read as the reply to the next command.

        Raises:
            redis.ConnectionError: an error reply shows that this server may no longer be the
                master.
            redis.ResponseError: another error reply.
        """
        try:
            return super().read_response(
                disable_decoding, disconnect_on_error=disconnect_on_error, **options
            )
        except redis.ResponseError as error:
            if not str(error).startswith(DEMOTED):
                raise
            self.disconnect()  # type: ignore[no-untyped-call]
            raise redis.ConnectionError(
                f"this server may no longer be the master: {error}"
            ) from error


class FollowingSSLConnection(FollowingConnection, SSLConnection):
    """A FollowingConnection with TLS."""


class Sentinels(Sentinel):
    """redis-py's Sentinel client, made safe for threads.

    redis-py reorders its list of Sentinels in place, so two threads at once can lose a Sentinel.
    While no Sentinel answers, the last known master remains the master, so that work goes on.
    """

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return host and port of a Sentinel service's master.

        If no Sentinel answers, the last known master is returned.

        Raises:
            MasterNotFoundError: a Sentinel answers but none names a living master, or none answers
                and no master is known.
        """
        answered, sentinels = False, list(self.sentinels)
        for sentinel in sentinels:
            try:
                state: Any = cast(dict[str, Any], sentinel.sentinel_masters()).get(service_name)
            except (redis.ConnectionError, redis.TimeoutError):
                continue
            answered = True
            if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                # The Sentinel that answered is asked first next time.
                self.sentinels = [
                    sentinel,
                    *(other for other in sentinels if other is not sentinel),
                ]
                self._known: tuple[str, int] = (state["ip"], state["port"])
                return self._known
        if not answered and hasattr(self, "_known"):
            return self._known
        addresses = ", ".join(
            "{host}:{port}".format_map(sentinel.connection_pool.connection_kwargs)
            for sentinel in sentinels
        )
        raise MasterNotFoundError(
            f"no Sentinel of {addresses} answers and names a living master {service_name!r}"
        )


def client_of(url: str, **options: Any) -> redis.Redis:
    """Return a redis-py client for a server's URL.

    The URL may name Sentinels. No connection is opened yet.

    Args:
        options: redis-py's options for the connections to the server.
    """
    options.setdefault("driver_info", LIBRARY)
    if not is_sentinel(url):
        return redis.Redis.from_url(url, **options)
    service = parse_sentinels(url)
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
    """Return a connection pool to the master that the Sentinels name.

    Args:
        master: the name of the master.
        options: redis-py's options for the connections to the server.
    """
    return SentinelConnectionPool(master, sentinels, **options)  # type: ignore[no-untyped-call]


def close(client: redis.Redis) -> None:
    """Close a client's connections, including those to Sentinels."""
    client.close()
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    if manager is not None:
        manager.close()


def sentinels_of(addresses: Sequence[tuple[str, int]], options: Mapping[str, Any]) -> Sentinels:
    """Return a client of the Sentinels at these addresses.

    Args:
        options: redis-py's options for the connections to the Sentinels.
    """
    return Sentinels(addresses, sentinel_kwargs=dict(options))  # type: ignore[no-untyped-call]


def sentinel_options(service: SentinelUrl) -> dict[str, Any]:
    """Return redis-py's options for the connections to the Sentinels.

    Retries are off. By default, redis-py asks an absent Sentinel ten times, with delays of up to
    ten seconds, before it asks the next Sentinel.
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
    """Return the ``ssl_...`` parameters of a Sentinel URL as redis-py's options.

    Raises:
        ValueError: a parameter has an invalid value.
    """
    parsed = parse_url(f"rediss://?{urlencode(service.ssl)}")  # type: ignore[no-untyped-call]
    return {name: value for name, value in parsed.items() if name.startswith("ssl_")}


def answers(connection: Any, within: float) -> bool:
    """Return whether the server of a new connection answers PING.

    The connection is closed afterwards.

    Args:
        within: the longest time in seconds to connect, and again to wait for the reply.
    """
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


@dataclass(frozen=True)
class SentinelView:
    """A service of one master and its replicas, as the Sentinels report it.

    Attributes:
        silent: addresses of the Sentinels in the URL that do not answer or do not know the master.
        masters: the master's address, by the address of each Sentinel that answers.
        replicas: the number of living replicas, according to the Sentinel that reports the fewest.
        sentinels: the number of Sentinels, according to the Sentinel that reports the fewest.
        quorum: whether every Sentinel that answers reaches enough other Sentinels to agree on a
            failover. False if none answers.
    """

    silent: tuple[str, ...] = ()
    masters: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 0
    sentinels: int = 0
    quorum: bool = False


def watch(service: SentinelUrl) -> SentinelView:
    """Ask every Sentinel of a service once, and return their combined reports."""
    manager = sentinels_of(service.sentinels, sentinel_options(service))
    silent, masters, replicas, sentinels, quorum = [], {}, [], [], []
    try:
        for (host, port), client in zip(service.sentinels, manager.sentinels, strict=True):
            address = f"{host}:{port}"
            try:
                master = cast(dict[str, Any], client.sentinel_master(service.master))
                slaves = client.sentinel_slaves(service.master)
                quorum.append(_quorum(client, service.master))
            except (redis.RedisError, OSError):
                silent.append(address)
                continue
            masters[address] = f"{master['ip']}:{master['port']}"
            replicas.append(sum(not (slave["is_sdown"] or slave["is_odown"]) for slave in slaves))
            sentinels.append(int(master["num-other-sentinels"]) + 1)
    finally:
        manager.close()
    return SentinelView(
        tuple(silent),
        masters,
        min(replicas, default=0),
        min(sentinels, default=0),
        bool(quorum) and all(quorum),
    )


def _quorum(client: redis.Redis, master: str) -> bool:
    """Return whether a Sentinel reaches a quorum for failovers."""
    try:
        # Only an error means no. The reply is a sentence, for which redis-py returns False.
        client.sentinel_ckquorum(master)
    except redis.ResponseError:
        return False
    return True
