"""Perdure: ``perdure worker`` with its defaults, 16 threads and the log level included.

Runs and messages are in one Redis, or messages in another of its databases (outbox). A round is the
commit of one node. The client submits the runs.

- threads: as many processes as cores (``--processes``), with 16 threads each; or one.
- solo: as many processes as cores, one round at a time in each.
- prefork: one worker with as many pool processes as cores.
- "without fetch": the commit does not prefetch the next round (PERDURE_FETCH=0).
- "synced": the server's log is synced before each reply (appendfsync always, the default of the
  embedded server). The other engines sync at every commit, too. Plain Celery and the other sides of
  Perdure use everysec, the default of Redis.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.processes import process, python, until
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.sides.side import Session, Side
from benchmarks.tally import Tally
from benchmarks.work import Work
from perdure.worker.client import Client
from perdure.worker.embedded.launch import Fsync
from perdure.worker.settings import Settings
from perdure.worker.store.keys import Keys

FLOWS = "benchmarks.flows"
#: Until this part of the runs has ended, the server is asked only once in these seconds. After that
#: it is asked as often as a session checks.
NEARLY_ALL, SELDOM = 0.9, 0.05


@dataclass(frozen=True)
class Perdure(Side):
    """Perdure.

    Attributes:
        pool: threads, solo or prefork.
        single: One process, even if the work asks for more.
        more: Processes in addition to the number of the work.
        fetch: Whether the commit prefetches; None for the default.
        outbox: Messages go through another database than the runs.
        fsync: How the server syncs its log of writes; ``everysec`` as for plain Celery.
    """

    pool: str = "threads"
    single: bool = False
    more: int = 0
    fetch: bool | None = None
    outbox: bool = False
    fsync: Fsync = "everysec"

    def missing(self) -> str | None:
        return "this version's commits do not fetch" if self.fetch and not can_fetch() else None

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            server = stack.enter_context(redis_server(self.fsync))
            client = stack.enter_context(closing(client_of(server)))
            environment = tally.environment | (
                {}
                if self.fetch is None or not can_fetch()
                else {"PERDURE_FETCH": str(int(self.fetch))}
            )
            if self.outbox:
                environment["PERDURE_BROKER_URL"] = server.database(1)
                client = stack.enter_context(
                    closing(client_of(server, broker_url=server.database(1)))
                )
            options = ["--pool", self.pool]
            count = 1 if self.single or self.pool == "prefork" else work.processes + self.more
            if self.pool == "prefork":
                options += ["--concurrency", str(work.processes)]
            supervised = count > 1 and has_supervisor()
            if supervised:
                options += ["--processes", str(count)]
            command = worker_command(*options)
            started = 1 if supervised else count
            workers = [
                stack.enter_context(
                    process(command, **worker_environment(server), **environment)
                ).pid
                for _ in range(started)
            ]
            until(lambda: alive(client) >= count, f"{count} workers")
            yield PerdureSession(
                workers, [server.pid], server, every=0.005, client=client, work=work
            )


@dataclass
class PerdureSession(Session):
    """Workers that are ready."""

    client: Client | None = None
    work: Work | None = None
    started: int = 0
    seen: int = 0
    looked: float = 0.0

    def start(self, runs: int) -> None:
        assert self.client is not None and self.work is not None
        self.started += runs
        inputs = {"rounds": self.work.rounds, "bytes": self.work.size}
        for _ in range(runs):
            self.client.submit("empty", "go", inputs)

    def ended(self) -> int:
        """Ask the server how many runs have ended.

        The server knows of an end only once it is written. As long as few runs have ended, it is
        asked rarely, because each request is work.
        """
        assert self.redis is not None
        if self.seen >= NEARLY_ALL * self.started or time.perf_counter() - self.looked > SELDOM:
            self.seen, self.looked = (
                int(self.redis.redis.zcard(Keys().index("completed"))),
                time.perf_counter(),
            )
        return self.seen

    def rounds(self) -> int:
        assert self.redis is not None
        ids = self.redis.redis.zrange(Keys().index("completed"), 0, -1)
        pipeline = self.redis.redis.pipeline(transaction=False)
        for run_id in ids:
            pipeline.hget(Keys().run(str(run_id)), "step")
        return sum(map(int, pipeline.execute()))


def can_fetch() -> bool:
    """Return whether this version has the setting."""
    return "fetch" in Settings.model_fields


def has_supervisor() -> bool:
    """Return whether this version supervises several processes (``--processes``)."""
    from perdure.worker.cli.commands.worker import worker_command

    return any(option.name == "processes" for option in worker_command.params)


def worker_command(*options: str) -> list[str]:
    """Return the command ``perdure worker``."""
    return python("-m", "perdure", "worker", *options)


def worker_environment(server: RedisServer) -> dict[str, str]:
    """Return a worker's variables for server and flows."""
    return {"PERDURE_REDIS_URL": server.url, "PERDURE_FLOW_MODULES": FLOWS}


def client_of(server: RedisServer, **settings: Any) -> Client:
    """Return a client of the runs there."""
    return Client(settings=Settings(redis_url=server.url, flow_modules=(FLOWS,), **settings))


def alive(client: Client) -> int:
    """Return how many workers have announced themselves."""
    return sum(bool(worker["alive"]) for worker in client.workers())
