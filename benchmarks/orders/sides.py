"""The systems that play orders, with servers and workers.

- Perdure: ``perdure worker --processes N`` with its defaults. Runs and messages are in one Redis,
  whose log is synced every second, or (synced) before each reply.
- DBOS: a queue of workflows, whose steps are functions that are called. It has the settings of
  ``benchmarks.sides.dbos``. Its database is PostgreSQL, or SQLite if PostgreSQL is not installed. A
  process that died is started again under its own executor id, as DBOS's documentation requires.
- Restate: an invocation for each order, with a durable step (``ctx.run``) for each effect. It has
  the settings of ``benchmarks.sides.restate``. A process that died is started again at its port.
- Celery: a chain of three tasks with late acks and a prefetch of 1. It has the other settings of
  ``benchmarks.sides.plain``.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from importlib import import_module, reload
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import postgres
from benchmarks.orders.receiver import receiver
from benchmarks.orders.side import BROKER, VISIBILITY, OrderSession, OrderSide, Processes
from benchmarks.processes import python, until
from benchmarks.redis_server import redis_server
from benchmarks.sides import restate
from benchmarks.sides.dbos import URL, VERSION
from benchmarks.sides.perdure import alive, worker_command
from benchmarks.sides.plain import QUIET
from benchmarks.sides.self_report import NUMBER, lacking
from benchmarks.sides.side import Session
from benchmarks.tally import Tally
from benchmarks.work import THREADS, Work
from perdure.worker.app import broker_url
from perdure.worker.client import Client
from perdure.worker.domain.run import RunStatus
from perdure.worker.embedded.launch import Fsync
from perdure.worker.settings import Settings
from tests.support.ports import free_ports

#: The base of the comparisons, as in the part ``rounds``.
BASE = "Celery chain, prefork, late acks"


def order_sides() -> list[OrderSide]:
    """Return all systems, in the order of the table."""
    return [
        PerdureOrders("Perdure", "perdure_order"),
        PerdureOrders("Perdure, coroutine", "perdure_async_order", flow="async-order"),
        PerdureOrders(
            "Perdure, idempotent steps", "perdure_idempotent_order", flow="idempotent-order"
        ),
        PerdureOrders("Perdure, synced", "perdure_order", fsync="always"),
        DbosOrders("DBOS", "dbos_order"),
        RestateOrders("Restate", "restate_order"),
        CeleryOrders(BASE, "celery_order"),
        CeleryOrders("Celery chain, threads, late acks", "celery_order", pool="threads"),
    ]


@dataclass(frozen=True)
class PerdureOrders(OrderSide):
    """Perdure.

    Attributes:
        flow: The name of the workflow.
        fsync: How the server syncs its log of writes.
    """

    flow: str = "order"
    fsync: Fsync = "everysec"

    def missing(self) -> str | None:
        return None

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            server = stack.enter_context(redis_server(self.fsync))
            rows = stack.enter_context(receiver())
            settings = Settings(redis_url=server.url, flow_modules=(self.module,))
            client = stack.enter_context(closing(Client(settings=settings)))
            processes = Processes(stack)
            environment = {"PERDURE_REDIS_URL": server.url, "PERDURE_FLOW_MODULES": self.module}
            processes.start(
                worker_command("--pool", "threads", "--processes", str(work.processes)),
                {**environment, **tally.environment, **rows.environment},
            )
            until(lambda: alive(client) >= work.processes, f"{work.processes} workers")
            yield PerdureOrderSession(
                workers=processes.pids,
                servers=[server.pid],
                redis=server,
                receiver=rows,
                processes=processes,
                client=client,
                flow=self.flow,
            )


@dataclass(kw_only=True)
class PerdureOrderSession(OrderSession):
    """Workers of Perdure that are ready."""

    client: Client
    flow: str
    ids: dict[int, str] = field(default_factory=dict)

    def submit(self, number: int) -> None:
        self.ids[number] = self.client.submit(self.flow, "an order", {"number": number}).id

    def is_asking(self, number: int) -> bool:
        run = self.client.get(self.ids[number])
        assert run.status is not RunStatus.ERRORED, f"order {number} errored: {run.error}"
        return run.status is RunStatus.INTERRUPTED

    def tell_done(self, number: int) -> None:
        self.client.resume(self.ids[number], {"result": f"parcel of order {number}"})


@dataclass(frozen=True)
class DbosOrders(OrderSide):
    """DBOS."""

    share: ClassVar[float] = 0.3

    def missing(self) -> str | None:
        return lacking("dbos", "psycopg")

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        from dbos import DBOSClient

        with ExitStack() as stack:
            url, servers = stack.enter_context(_database())
            rows = stack.enter_context(receiver())
            processes = Processes(stack)
            environment = {URL: url, **tally.environment, **rows.environment}
            # One after the other: the first one makes the tables.
            for number in range(work.processes):
                command = python("-m", "benchmarks.orders.dbos_worker")
                processes.start(command, {**environment, NUMBER: str(number)})
                until(lambda: tally.ready == len(processes.pids), "a worker of DBOS")
            client = DBOSClient(system_database_url=url)
            stack.callback(client.destroy)
            yield DbosOrderSession(
                workers=processes.pids,
                servers=servers,
                receiver=rows,
                processes=processes,
                client=client,
            )


def dbos_database() -> str:
    """Return the name of DBOS's database here."""
    return "PostgreSQL" if postgres.missing() is None else "SQLite"


@contextmanager
def _database() -> Iterator[tuple[str, list[int]]]:
    """Start PostgreSQL, or make a file for SQLite. Yield the URL and the server's processes."""
    if postgres.missing() is None:
        with postgres.postgres() as database:
            yield database.url("postgresql+psycopg"), [database.pid]
        return
    directory = Path(tempfile.mkdtemp(prefix="dbos-"))
    try:
        yield f"sqlite:///{directory / 'orders.sqlite'}", []
    finally:
        shutil.rmtree(directory)


@dataclass(kw_only=True)
class DbosOrderSession(OrderSession):
    """Workers of DBOS that are ready."""

    client: Any

    def submit(self, number: int) -> None:
        options = {"queue_name": "orders", "workflow_name": "order", "app_version": VERSION}
        self.client.enqueue(options, number)


@dataclass(frozen=True)
class RestateOrders(OrderSide):
    """Restate."""

    share: ClassVar[float] = 0.5

    def missing(self) -> str | None:
        return restate.missing_parts()

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            server = stack.enter_context(restate.restate_server())
            rows = stack.enter_context(receiver())
            processes = Processes(stack)
            ports = free_ports(work.processes)
            for number, port in enumerate(ports):
                command = python("-m", "benchmarks.orders.restate_worker", str(port))
                environment = {NUMBER: str(number), **tally.environment, **rows.environment}
                processes.start(command, environment)
            until(lambda: tally.ready == len(ports), "Restate's services")
            server.register(ports)
            yield RestateOrderSession(
                workers=processes.pids,
                servers=[server.pid],
                receiver=rows,
                processes=processes,
                entrance=stack.enter_context(server.entrance()),
            )


@dataclass(kw_only=True)
class RestateOrderSession(OrderSession):
    """Processes that serve the orders of Restate."""

    entrance: HTTPConnection

    def submit(self, number: int) -> None:
        service = number % len(self.workers)
        restate.send(self.entrance, f"/orders{service}/order/send", number)


@dataclass(frozen=True)
class CeleryOrders(OrderSide):
    """Plain Celery; ``pool`` is prefork or threads."""

    pool: str = "prefork"
    share: ClassVar[float] = 0.5

    def missing(self) -> str | None:
        return None

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            server = stack.enter_context(redis_server())
            rows = stack.enter_context(receiver())
            broker = broker_url(server.url).replace("perdure+", "redis+")
            environment = {BROKER: broker, **tally.environment, **rows.environment}
            if self.visibility is not None:
                environment[VISIBILITY] = str(self.visibility)
            is_prefork = self.pool == "prefork"
            count = 1 if is_prefork else work.processes
            slots = work.processes if is_prefork else THREADS
            command = python("-m", "celery", "-A", "benchmarks.orders.celery_worker", "worker")
            options = ["--pool", self.pool, "--concurrency", str(slots), *QUIET]
            processes = Processes(stack)
            for number in range(count):
                name = ["--hostname", f"orders{number}@%h"]
                processes.start([*command, *options, *name], environment)
            until(lambda: tally.ready == count, f"{count} plain workers")

            # A new app for each session: the connections of an app outlive its settings.
            example: Any = reload(import_module(self.module))
            example.app.conf.update(broker_url=broker)
            stack.callback(example.app.close)
            yield CeleryOrderSession(
                workers=processes.pids,
                servers=[server.pid],
                redis=server,
                receiver=rows,
                processes=processes,
                place_order=example.place_order,
            )


#: Seconds for which a broker holds nothing until it counts as empty: a message that is being
#: delivered is in none of its keys for a moment.
EMPTY_FOR = 3.0


@dataclass(kw_only=True)
class CeleryOrderSession(OrderSession):
    """Workers of plain Celery that are ready."""

    place_order: Any
    empty_since: float | None = None

    def submit(self, number: int) -> None:
        self.place_order(number)

    def is_lost(self) -> bool:
        """Return whether the broker is empty for EMPTY_FOR seconds.

        Neither its queue nor its list of unacknowledged messages then has a message.
        """
        assert self.redis is not None
        redis: Any = self.redis.redis
        if redis.llen("celery") or redis.hlen("unacked"):
            self.empty_since = None
            return False
        now = time.monotonic()
        self.empty_since = self.empty_since or now
        return now - self.empty_since > EMPTY_FOR

    def settle(self) -> None:
        """Wait for messages that are delivered again. Their order has ended already."""
        until(self.is_lost, "an empty broker", 60.0, every=0.05)
