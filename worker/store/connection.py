"""The connection to the state server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import PythonRespSerializer
from redis.retry import Retry

from perdure.worker.errors import (
    DamagedRun,
    NotReplicated,
    ServerFull,
    StoreUnavailable,
)
from perdure.worker.store import scripts
from perdure.worker.store.keys import Keys
from perdure.worker.store.outage import Outage
from perdure.worker.store.refusals import (
    denied,
    is_denied,
    refusal_code,
    refusal_text,
    reply_text,
)
from perdure.worker.store.replication import (
    ACKNOWLEDGED,
    Replication,
    answer_and_wait,
)
from perdure.worker.store.sentinel import client_of, close
from perdure.worker.store.wire import Wire, told
from perdure.worker.urls import is_sentinel, place_of, scheme_of

#: Reports of Python and redis-py if a client without TLS connects to a port that expects TLS.
HUNG_UP = ("Connection reset", "Connection closed", "closed by server", "Broken pipe")
#: Their reports if a client with TLS connects to a port without it.
NO_TLS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "UNEXPECTED_EOF",
    "EOF occurred",
    "Timeout",
)


def hint(url: str, error: Exception) -> str:
    """Return advice about TLS for a failed connection.

    The advice is appended to an error text, so it begins with ". ". It is empty if the failure does
    not look like a TLS problem.

    Args:
        url: the URL of the server.
        error: the error that Python or redis-py raised.
    """
    text, encrypted = str(error), scheme_of(url).startswith("rediss")
    sentinel = "+sentinel" if is_sentinel(url) else ""
    plain, secure = f"redis{sentinel}://", f"rediss{sentinel}://"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return (
            ". The server's certificate was not accepted: name its authority in the URL "
            "(?ssl_ca_certs=/path/to/ca.pem), and use the host name that the certificate has"
        )
    if encrypted and any(report in text for report in NO_TLS):
        return f". Does this port use TLS? If not, the URL must begin with {plain}"
    if not encrypted and any(report in text for report in HUNG_UP):
        return f". If this port uses TLS, the URL must begin with {secure}"
    return ""


#: A command is sent again up to 8 times after a connection error. All transitions may be repeated.
#: With the backoff below that takes about two seconds. Then the caller decides.
RESENDS = 8
BACKOFF_CAP, BACKOFF_BASE = 0.5, 0.02
#: Seconds without a reply until the connection is closed. Longer than any of Perdure's scripts
#: runs, and longer than a server waits for a slow fsync.
SOCKET_TIMEOUT = 5.0
#: No limit, since each reading thread holds one connection and the threads are limited. With
#: redis-py's own limit of 100, further reads would fail.
MAX_CONNECTIONS = 2**31
#: Bytes. A longer argument is sent by itself instead of being copied into the command. The limit is
#: redis-py's own.
PIECE = 6000


#: Advice for a full server: the refused work, and how to free memory.
FULL = (
    "Running work goes on, new work is refused. Free some: perdure delete --status completed "
    "--older-than 7d, or raise its maxmemory"
)


class Backoff(ExponentialWithJitterBackoff):
    """The delay before a failed command is sent again.

    The delay grows exponentially, with jitter. A process that shuts down sends no command again, so
    that its shutdown does not wait for the server.

    Args:
        leaves: returns whether this process is shutting down.
    """

    def __init__(self, leaves: Callable[[], bool]) -> None:
        super().__init__(cap=BACKOFF_CAP, base=BACKOFF_BASE)
        self._leaves = leaves

    def __deepcopy__(self, _: Any) -> Backoff:
        return self  # redis-py copies it for each connection, but it has no state of a connection.

    def compute(self, failures: int) -> float:
        """Return the seconds until a command is sent again.

        If the process is shutting down, raise the error of the failed command instead.

        Args:
            failures: how often the command has failed so far.
        """
        error = sys.exc_info()[1]
        if error is not None and self._leaves():
            raise error
        return super().compute(failures)


class StoreConnection:
    """A connection to the state server, for one prefix.

    Args:
        url: the URL of the state server.
        prefix: the beginning of each key.
        now: a fixed time (ms) that replaces the server's clock in tests. None: the server's clock.
        timeout: seconds to wait for one reply.
        resends: how often a command is sent again after a connection error.
        outbox: whether the broker is another server. Then the scripts return the messages to
            publish.
        replication: how many replicas must have a write before a transition returns. None: no
            replica.
        leaves: returns whether this process is shutting down. Then no command is sent again.
        outage: the log of outages, if another connection of this process to the same server has
            one. None: a new one.
    """

    #: Milliseconds until the sweep examines a run of a paused flow. Usually `Pauses.remove` makes
    #: it due earlier. This covers the death of the process that unpauses the flow.
    paused_look = 30_000

    def __init__(
        self,
        url: str,
        prefix: str = "perdure",
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
        #: Replaces the server's clock (ms) in tests. None outside them.
        self.now = now
        #: Which of the server's failures this process has logged.
        self.outage = outage or Outage()
        backoff = Backoff(leaves)
        #: For reads. The transitions use the connections of `Wire`.
        self.redis: redis.Redis = client_of(
            url,
            decode_responses=True,
            encoding_errors="surrogateescape",
            socket_timeout=timeout,
            max_connections=MAX_CONNECTIONS,
            retry=Retry(backoff, resends),
        )
        # With hiredis installed, redis-py's default packer refuses bytes that are not UTF-8.
        packer: Any = PythonRespSerializer(PIECE, self.redis.get_encoder().encode)
        self.redis.connection_pool.connection_kwargs["command_packer"] = packer
        self._wire = Wire(self.redis, resends, backoff)
        self._scripts = scripts.load()

    def close(self) -> None:
        """Close all connections to the state server."""
        self._wire.close()
        close(self.redis)

    @property
    def place(self) -> str:
        """The state server's URL without user and password."""
        return place_of(self.url)

    def time(self) -> int:
        """Return the state server's time in ms since 1970."""
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
        return self._call(
            transition, self.keys.of_run(run_id, idempotency_key), named, fields, rest, run_id
        )

    def _of_store(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.now is not None:
            named = {**named, "now": self.now}
        return {**named, "outbox": 1} if self.outbox else named

    def _call_all(
        self, transition: str, calls: Sequence[tuple[list[str], Mapping[str, Any]]]
    ) -> list[list[Any]]:
        """Run one script several times, in one exchange.

        All calls are executed, even if one of them fails.

        Args:
            transition: the name of the script.
            calls: the keys and the named arguments of each call.

        Returns:
            The replies, in the order of the calls.

        Raises:
            PerdureError: the first error among the replies, or the server does not answer.
        """
        script = self._scripts[transition]
        try:
            replies = script.exchange_all(
                self._wire,
                [(keys, script.arguments(self._of_store(named))) for keys, named in calls],
            )
            return [told(reply) for reply in replies]
        except redis.RedisError as error:
            self._raise_own(error, transition)
            raise

    def _call(
        self,
        transition: str,
        keys: list[str],
        named: Mapping[str, Any],
        fields: Mapping[str, str] | None = None,
        rest: Iterable[str] = (),
        run_id: str = "",
    ) -> list[Any]:
        script, replication = self._scripts[transition], self.replication
        if self.now is not None or self.outbox:
            named = self._of_store(named)
        argv = script.arguments(named, fields, rest)
        # Not `_answered`: its generator context costs a hundredth of all calls of a round.
        try:
            if not replication.replicas or transition not in ACKNOWLEDGED:
                return cast(list[Any], script(self._wire, keys, argv))
            answer, count = answer_and_wait(
                self._wire, script, keys, argv, replication, self.keys.replicated
            )
        except redis.RedisError as error:
            self._raise_own(error, transition)
            raise
        if count < replication.replicas:
            raise NotReplicated(
                f"run {run_id}: {transition} was done (the server answered {answer[0]!r}), "
                f"but only {count} of {replication.replicas} replicas had it within "
                f"{replication.seconds:g} s (wait_replicas, wait_timeout_seconds). "
                "A failover now could undo it. Check the run before you try again (perdure show "
                f"{run_id}), and the replicas (perdure doctor)"
            )
        return cast(list[Any], answer)

    @contextmanager
    def _answered(self, what: str = "") -> Iterator[None]:
        """Raise Perdure's errors for errors of redis-py.

        They are the errors that the ``with`` block raises. An error of redis-py for which Perdure
        has none is raised unchanged.

        Args:
            what: the name of the operation, for the text of an AccessDenied.
        """
        try:
            yield
        except redis.RedisError as error:
            self._raise_own(error, what)
            raise

    def _fill(self) -> str:
        """Return the server's memory use, for an error text.

        The text begins with a space. It is empty if INFO cannot be read, or if the server has no
        limit.
        """
        try:
            memory = self.redis.info("memory")
        except redis.RedisError:
            return ""
        used, most = int(memory.get("used_memory", 0)), int(memory.get("maxmemory", 0))
        return f" ({used / 1e6:,.1f} of {most / 1e6:,.1f} MB)" if most else ""

    def _raise_own(self, error: redis.RedisError, what: str) -> None:
        """Raise Perdure's error for an error of redis-py.

        Return without an error if Perdure has none for it.

        Args:
            what: the name of the operation, for the text of an AccessDenied.
        """
        if isinstance(error, redis.AuthenticationError | redis.exceptions.AuthorizationError):
            raise denied(self.url, error, what) from error
        code = refusal_code(error)
        if code is not None:
            raise StoreUnavailable(refusal_text(self.url, error, code)) from error
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            text = (
                f"no answer from the state server at {self.place}: "
                f"{str(error).rstrip('.')}{hint(self.url, error)}"
            )
            raise StoreUnavailable(text) from error
        if isinstance(error, redis.OutOfMemoryError) or " OOM " in f" {error} ":
            raise ServerFull(f"the server at {self.place} is full{self._fill()}. {FULL}") from error
        if not isinstance(error, redis.ResponseError):
            return
        if is_denied(error):
            raise denied(self.url, error, what) from error
        if reply_text(error).startswith("WRONGTYPE"):
            raise DamagedRun(
                f"a key under {self.keys.prefix}: has a wrong type ({error}); "
                "find out who wrote to the server"
            ) from error
