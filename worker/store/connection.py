"""Connection: the one client of the state server, and what its failures are called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import PythonRespSerializer
from redis.retry import Retry

from flows.errors import HoldfastError
from worker.errors import DamagedRun
from worker.places import place_of, user_of
from worker.store import scripts
from worker.store.hints import hint
from worker.store.keys import Keys
from worker.store.outage import Outage
from worker.store.reaching import client_of, close
from worker.store.replication import ACKNOWLEDGED, NotReplicated, Replication, answer_and_wait
from worker.store.wire import Wire

#: Each command is sent again up to this often after a connection error; all transitions may be repeated.
#: With the backoff below that is about two seconds, after which the caller decides.
RESENDS = 8
BACKOFF_CAP, BACKOFF_BASE = 0.5, 0.02
#: Seconds without a reply until the connection is given up; longer than any script of ours, than a server's fsync stall.
SOCKET_TIMEOUT = 5.0
#: No limit: a thread that reads holds one connection, so threads bound them. Beyond redis-py's own limit, 100, reads fail.
MAX_CONNECTIONS = 2**31
#: Bytes; longer words are sent by themselves instead of being copied into the command. redis-py's own figure.
PIECE = 6000


#: What a connection tells the server of itself. Made once: it is looked up among all that is installed, which takes longer than to connect.
library = cache(redis.DriverInfo)


#: What a full server means, and how to make room.
FULL = "Running work goes on, new work is refused. Free some: holdfast delete --status completed --older-than 7d, or raise its maxmemory"


class StoreUnavailable(HoldfastError, ConnectionError):
    """The state server does not answer, or refuses (full, read-only, loading): try again later."""


class ServerFull(StoreUnavailable):
    """The state server is at its maxmemory: running work goes on, new work is refused until there is room."""


class AccessDenied(StoreUnavailable):
    """The state server refuses this user: a wrong login, or a command or key that its ACL does not grant (docs/security.md)."""


#: How a server says that a command inside a script was refused; the older ones without the word NOPERM.
REFUSED_IN_SCRIPT = ("The user executing the script", "ACL failure in script")


def is_denied(error: Exception) -> bool:
    """Whether the server refused the user, not the command."""
    refused = isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError | redis.exceptions.AuthorizationError)
    return refused or str(error).startswith(("NOPERM", "NOAUTH", "WRONGPASS")) or any(word in str(error) for word in REFUSED_IN_SCRIPT)


def denied(url: str, error: Exception, what: str = "") -> AccessDenied:
    """The error for a server that refused the user of ``url``; ``what`` was asked for, in a word or two."""
    place = place_of(url)
    if str(error).startswith("WRONGPASS") or "invalid username-password" in str(error) or "invalid password" in str(error):
        return AccessDenied(
            f"the state server at {place} refuses the user {user_of(url)!r}: it does not accept the password. "
            "Put the right one into the URL: redis://:PASSWORD@HOST, redis://USER:PASSWORD@HOST or unix:///PATH?password=PASSWORD"
        )
    if str(error).startswith("NOAUTH") or "must be called with the client already authenticated" in str(error):
        return AccessDenied(
            f"the state server at {place} refuses the user {user_of(url)!r}: it wants a password, and the URL has none. "
            "Put it into the URL: redis://:PASSWORD@HOST, redis://USER:PASSWORD@HOST or unix:///PATH?password=PASSWORD"
        )
    asked = f" ({what})" if what else ""
    return AccessDenied(
        f"the state server at {place_of(url)} refuses the user {user_of(url)!r}{asked}: {str(error).rstrip('.')}. "
        "Use a login that may do this; docs/security.md says what each role may do"
    )


class Backoff(ExponentialWithJitterBackoff):
    """Seconds between two sendings; while the process leaves nothing is sent again, since whoever ended it waits."""

    def __init__(self, leaves: Callable[[], bool]) -> None:
        super().__init__(cap=BACKOFF_CAP, base=BACKOFF_BASE)
        self._leaves = leaves

    def __deepcopy__(self, _: Any) -> Backoff:
        return self  # redis-py makes a copy for each connection; there is nothing to be told apart

    def compute(self, failures: int) -> float:
        """The seconds after so many failures; raises the error that is being handled where there is to be no further sending."""
        error = sys.exc_info()[1]
        if error is not None and self._leaves():
            raise error
        return super().compute(failures)


class Connection:
    """A connection to the state server, under one prefix.

    Args:
        now: stands in for the server's clock (ms).
        timeout: seconds for one answer.
        resends: how often a command is sent again after a connection error.
        outbox: whether the messages go to another broker.
        leaves: whether this process is about to end, and sends nothing again.
        outage: shared with another connection of this process to the same server; None: one of its own.
    """

    def __init__(
        self,
        url: str,
        prefix: str = "holdfast",
        now: int | None = None,
        timeout: float = SOCKET_TIMEOUT,
        resends: int = RESENDS,
        outbox: bool = False,
        replication: Replication | None = None,
        leaves: Callable[[], bool] = lambda: False,
        outage: Outage | None = None,
    ) -> None:
        self.url = url
        self.outbox = outbox
        self.keys = Keys(prefix)
        self.replication = replication or Replication()
        #: Stands in for the server's clock (ms) in tests; None outside them.
        self.now = now
        #: What this process has logged of the server's failures.
        self.outage = outage or Outage()
        backoff = Backoff(leaves)
        #: For reads. The transitions go over the wire.
        self.redis: redis.Redis = client_of(
            url,
            decode_responses=True,
            encoding_errors="surrogateescape",
            socket_timeout=timeout,
            max_connections=MAX_CONNECTIONS,
            retry=Retry(backoff, resends),
        )
        # What packs commands where hiredis is installed refuses bytes that are no UTF-8.
        packer: Any = PythonRespSerializer(PIECE, self.redis.get_encoder().encode)
        self.redis.connection_pool.connection_kwargs |= {"command_packer": packer, "driver_info": library()}
        self._wire = Wire(self.redis, resends, backoff)
        self._scripts = scripts.load()

    def close(self) -> None:
        """Close all connections."""
        self._wire.close()
        close(self.redis)

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
        return self._call(transition, self.keys.of_run(run_id, idempotency_key), named, fields, rest, run_id)

    def _call(
        self,
        transition: str,
        keys: list[str],
        named: Mapping[str, Any],
        fields: Mapping[str, str] | None = None,
        rest: Iterable[str] = (),
        run_id: str = "",
    ) -> list[Any]:
        if self.now is not None:
            named = {**named, "now": self.now}
        if self.outbox:
            named = {**named, "outbox": 1}
        script, wanted = self._scripts[transition], self.replication
        argv = script.arguments(named, fields, rest)
        try:  # not by _answered: a generator's context would be a hundredth of all that a round calls
            if not wanted.replicas or transition not in ACKNOWLEDGED:
                return cast(list[Any], script(self._wire, keys, argv))
            answer, count = answer_and_wait(self._wire, script, keys, argv, wanted, self.keys.replicated)
        except redis.RedisError as error:
            self._tell(error, transition)
            raise
        if count < wanted.replicas:
            raise NotReplicated(
                f"run {run_id}: the server answered {answer[0]!r} to {transition}, and what it did stands; but of {wanted.replicas} "
                f"replicas {count} had it within {wanted.seconds:g} s (wait_replicas, wait_timeout_seconds): a failover now could undo it. "
                f"Look at the run before you ask again (holdfast show {run_id}), and at the replicas (holdfast doctor)"
            )
        return cast(list[Any], answer)

    @contextmanager
    def _answered(self, what: str = "") -> Iterator[None]:
        try:
            yield
        except redis.RedisError as error:
            self._tell(error, what)
            raise

    def _fill(self) -> str:
        """Return how full the server is, behind a blank; nothing where it does not tell."""
        try:
            told = self.redis.info("memory")
        except redis.RedisError:
            return ""
        used, most = int(told.get("used_memory", 0)), int(told.get("maxmemory", 0))
        return f" ({used / 1e6:,.1f} of {most / 1e6:,.1f} MB)" if most else ""

    def _tell(self, error: redis.RedisError, what: str) -> None:
        """Raise what the error is called here; nothing where it has no other name."""
        if isinstance(error, redis.AuthenticationError | redis.exceptions.AuthorizationError):
            raise denied(self.url, error, what) from error
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            told = f"no answer from the state server at {self.place}: {str(error).rstrip('.')}{hint(self.url, error)}"
            raise StoreUnavailable(told) from error
        if isinstance(error, redis.OutOfMemoryError) or " OOM " in f" {error} ":
            raise ServerFull(f"the server at {self.place} is full{self._fill()}. {FULL}") from error
        if isinstance(error, redis.ReadOnlyError):
            raise StoreUnavailable(f"the state server at {self.place} refuses to write: {error}") from error
        if not isinstance(error, redis.ResponseError):
            return
        if is_denied(error):
            raise denied(self.url, error, what) from error
        # Of a command in a pipeline, redis-py tells which one it was before it tells what the server said.
        said = str(error).rpartition(" of pipeline caused error: ")[2]
        if said.startswith(("OOM", "MISCONF", "READONLY", "LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS")):
            raise StoreUnavailable(f"the state server at {self.place} refuses for now: {said}") from error
        if said.startswith("WRONGTYPE"):
            raise DamagedRun(f"a key under {self.keys.prefix}: does not hold what it should; who wrote to the server? ({error})") from error
