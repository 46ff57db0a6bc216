"""Holdfast: ``holdfast worker`` with its defaults (16 threads, log level and all), runs and messages in one Redis, or messages in another
database of it (outbox). A round is the commit of one node; runs are submitted by the client.

- threads: as many processes as there are cores (``--processes``), of 16 threads each; or one.
- solo: as many processes as there are cores, one round at a time each.
- prefork: one worker with as many pool processes as there are cores.
- "without fetch": the commit does not take the next round along (HOLDFAST_FETCH=0).
- "synced": the server's log is synced before each answer (appendfsync always, what the embedded server does if nothing else is said). The
  other engines sync at every commit too; plain Celery and the other sides of ours run on everysec, Redis's own default.
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
from worker.client import Client
from worker.embedded.launch import Fsync
from worker.settings import Settings
from worker.store.keys import Keys

FLOWS = "benchmarks.flows"
#: Until so large a part of the runs has ended, the server is asked only every so many seconds; then as often as a session looks.
NEARLY_ALL, SELDOM = 0.9, 0.05


@dataclass(frozen=True)
class Holdfast(Side):
    """Holdfast.

    Attributes:
        pool: threads, solo or prefork.
        single: one process, however many the work asks for.
        more: processes beside as many as the work asks for.
        fetch: whether the commit fetches; None for the default.
        outbox: messages go through another database than the runs.
        fsync: how the server syncs its log of writes; ``everysec`` as for plain Celery.
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
            environment = tally.environment | ({} if self.fetch is None or not can_fetch() else {"HOLDFAST_FETCH": str(int(self.fetch))})
            if self.outbox:
                environment["HOLDFAST_BROKER_URL"] = server.database(1)
                client = stack.enter_context(closing(client_of(server, broker_url=server.database(1))))
            options = ["--pool", self.pool]
            count = 1 if self.single or self.pool == "prefork" else work.processes + self.more
            if self.pool == "prefork":
                options += ["--concurrency", str(work.processes)]
            supervised = count > 1 and has_supervisor()
            if supervised:
                options += ["--processes", str(count)]
            command = worker_command(*options)
            started = 1 if supervised else count
            workers = [stack.enter_context(process(command, **worker_environment(server), **environment)).pid for _ in range(started)]
            until(lambda: alive(client) >= count, f"{count} workers")
            yield HoldfastSession(workers, [server.pid], server, every=0.005, client=client, work=work)


@dataclass
class HoldfastSession(Session):
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
        """Asked of the server, which knows of an end only once it is written; seldom, as long as few have ended: each look is work."""
        assert self.redis is not None
        if self.seen >= NEARLY_ALL * self.started or time.perf_counter() - self.looked > SELDOM:
            self.seen, self.looked = int(self.redis.redis.zcard(Keys().index("completed"))), time.perf_counter()
        return self.seen

    def rounds(self) -> int:
        assert self.redis is not None
        ids = self.redis.redis.zrange(Keys().index("completed"), 0, -1)
        pipeline = self.redis.redis.pipeline(transaction=False)
        for run_id in ids:
            pipeline.hget(Keys().run(str(run_id)), "step")
        return sum(map(int, pipeline.execute()))


def can_fetch() -> bool:
    """Whether this version has the setting."""
    return "fetch" in Settings.model_fields


def has_supervisor() -> bool:
    """Whether this version starts several processes under one supervisor."""
    from worker.cli.worker import worker_command

    return any(option.name == "processes" for option in worker_command.params)


def worker_command(*options: str) -> list[str]:
    """``holdfast worker``."""
    return python("-m", "worker.cli", "worker", *options)


def worker_environment(server: RedisServer) -> dict[str, str]:
    """What a worker finds the server and the flows by."""
    return {"HOLDFAST_REDIS_URL": server.url, "HOLDFAST_FLOW_MODULES": FLOWS}


def client_of(server: RedisServer, **settings: Any) -> Client:
    """A client of the runs there."""
    return Client(settings=Settings(redis_url=server.url, flow_modules=(FLOWS,), **settings))


def alive(client: Client) -> int:
    """How many workers have announced themselves."""
    return sum(bool(worker["alive"]) for worker in client.workers())
