"""Connection: the one client of the state server, and what its failures are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from flows.errors import HoldfastError
from worker.errors import DamagedRun
from worker.places import place_of
from worker.store import scripts
from worker.store.keys import Keys

#: Each command is sent again up to this often after a connection error; all transitions may be repeated.
#: With the backoff below that is about three seconds, after which the caller decides.
RESENDS = 8
BACKOFF_CAP, BACKOFF_BASE = 0.5, 0.02
#: Seconds without a reply until the connection is given up; longer than any script of ours, than a server's fsync stall.
SOCKET_TIMEOUT = 5.0
#: Connections beside the threads that play rounds: heartbeat, sweep, clients.
MAX_CONNECTIONS = 1024


class StoreUnavailable(HoldfastError, ConnectionError):
    """The state server does not answer, or refuses (full, read-only, loading): try again later."""


class Connection:
    """A connection to the state server, under one prefix."""

    def __init__(
        self,
        url: str,
        prefix: str = "holdfast",
        now: int | None = None,
        timeout: float = SOCKET_TIMEOUT,
        resends: int = RESENDS,
        outbox: bool = False,
    ) -> None:
        self.url = url
        self.outbox = outbox
        self.keys = Keys(prefix)
        #: Stands in for the server's clock (ms) in tests; None outside them.
        self.now = now
        self.redis: redis.Redis = redis.Redis.from_url(
            url,
            decode_responses=True,
            encoding_errors="surrogateescape",
            socket_timeout=timeout,
            max_connections=MAX_CONNECTIONS,
            retry=Retry(ExponentialWithJitterBackoff(cap=BACKOFF_CAP, base=BACKOFF_BASE), resends),
        )
        self._scripts = scripts.load(self.redis)

    def close(self) -> None:
        """Close all connections."""
        self.redis.close()

    @property
    def place(self) -> str:
        """The server's address without its password."""
        return place_of(self.url)

    def time(self) -> int:
        """The server's clock in ms."""
        with self._answered():
            seconds, micros = self.redis.time()
            return self.now if self.now is not None else seconds * 1000 + micros // 1000

    def _run(
        self,
        transition: str,
        run_id: str,
        named: Mapping[str, Any],
        fields: Mapping[str, str] | None = None,
        rest: Iterable[str] = (),
        idempotency_key: str | None = None,
    ) -> list[Any]:
        return self._call(transition, self.keys.of_run(run_id, idempotency_key), named, fields, rest)

    def _call(
        self,
        transition: str,
        keys: list[str],
        named: Mapping[str, Any],
        fields: Mapping[str, str] | None = None,
        rest: Iterable[str] = (),
    ) -> list[Any]:
        if self.now is not None:
            named = {**named, "now": self.now}
        if self.outbox:
            named = {**named, "outbox": 1}
        with self._answered():
            return cast(list[Any], self._scripts[transition](keys=keys, args=scripts.arguments(named, fields, rest)))

    @contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise StoreUnavailable(f"no answer from the state server at {self.place}: {error}") from error
        except (redis.OutOfMemoryError, redis.ReadOnlyError) as error:
            raise StoreUnavailable(f"the state server at {self.place} refuses to write: {error}") from error
        except redis.ResponseError as error:
            # Of a command in a pipeline, redis-py tells which one it was before it tells what the server said.
            said = str(error).rpartition(" of pipeline caused error: ")[2]
            if said.startswith(("OOM", "MISCONF", "READONLY", "LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN")):
                raise StoreUnavailable(f"the state server at {self.place} refuses for now: {said}") from error
            if said.startswith("WRONGTYPE"):
                raise DamagedRun(
                    f"a key under {self.keys.prefix}: does not hold what it should; who wrote to the server? ({error})"
                ) from error
            raise
