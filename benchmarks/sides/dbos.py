"""DBOS on PostgreSQL.

- queued: each round is a workflow that enqueues the next one. Any process may take it, as in
  Perdure.
- steps: a run is one workflow, and each round a step in it. The process that has a run keeps it. So
  the engine does less.

DBOSClient enqueues the runs. The queue is polled every 50 ms instead of DBOS's second, which would
leave workers idle. Otherwise each worker process has the library's defaults: its pool of threads
and connections, LISTEN/NOTIFY, its serializer. PostgreSQL is as initdb makes it, over a unix
socket. The end of a run is reported from within its last workflow, so the commit of that one is not
waited for. This favours DBOS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks import postgres
from benchmarks.processes import process, python, until
from benchmarks.sides.self_report import NUMBER, Told, lacking
from benchmarks.sides.side import Session, Side
from benchmarks.tally import Tally
from benchmarks.work import Work, state_after

URL = "BENCH_DATABASE"
QUEUE = "rounds"
#: Of the application: workers only take runs of their own version.
VERSION = "1"
POLLING = 0.05


@dataclass(frozen=True)
class Dbos(Side):
    """DBOS; ``workflow`` names the enqueued workflow of dbos_worker.py: one_round or all_rounds."""

    workflow: str = "one_round"
    share: ClassVar[float] = 0.3

    def missing(self) -> str | None:
        return lacking("dbos", "psycopg") or postgres.missing()

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        from dbos import DBOSClient

        with ExitStack() as stack:
            database = stack.enter_context(postgres.postgres())
            url = database.url("postgresql+psycopg")
            environment = {URL: url, **tally.environment}
            workers: list[int] = []
            for number in range(
                work.processes
            ):  # one after the other: the first one makes the tables
                command = python("-m", "benchmarks.sides.dbos_worker")
                workers.append(
                    stack.enter_context(
                        process(command, **environment, **{NUMBER: str(number)})
                    ).pid
                )
                until(lambda: tally.ready == len(workers), "a worker of DBOS")
            client = DBOSClient(system_database_url=url)
            stack.callback(client.destroy)
            options: Any = {
                "queue_name": QUEUE,
                "workflow_name": self.workflow,
                "app_version": VERSION,
            }

            def begin(runs: int) -> None:
                for _ in range(runs):
                    client.enqueue(options, state_after(0, work.size), 0, work.rounds)

            yield Told(workers, [database.pid], tally=tally, begin=begin)
