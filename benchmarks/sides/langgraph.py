"""LangGraph with its PostgreSQL checkpointer.

Its graph has one node that goes back to itself. A run is a thread of the graph. LangGraph has no
queue and no workers. So there are as many processes as cores, each gets the same share of the runs,
and plays them with four threads. With 16, as Perdure's workers have, it was slower. Nothing is
enqueued, and no process takes over the runs of a process that dies.

- sync: the checkpoint of a round is written before the next one begins, as in all other sides.
- async: LangGraph's default. The checkpoint is written while the next round plays, so a crash may
  lose it.

Connections are as its documentation requires (autocommit, rows as dicts), in a pool with one for
each thread. PostgreSQL is as initdb makes it, over a unix socket.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from benchmarks import postgres
from benchmarks.processes import process, python, until
from benchmarks.sides.self_report import NUMBER, Told, lacking
from benchmarks.sides.side import Session, Side
from benchmarks.tally import Tally
from benchmarks.work import Work

URL = "BENCH_DATABASE"
DURABILITY = "BENCH_DURABILITY"
SIZE = "BENCH_SIZE"
ROUNDS = "BENCH_ROUNDS"
#: Of each process.
THREADS = 4


@dataclass(frozen=True)
class LangGraph(Side):
    """LangGraph; ``durability`` is LangGraph's setting: sync or async."""

    durability: str = "sync"
    share: ClassVar[float] = 0.5

    def missing(self) -> str | None:
        return lacking("langgraph", "psycopg", "psycopg_pool") or postgres.missing()

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            database = stack.enter_context(postgres.postgres())
            environment = {
                URL: database.url(),
                **tally.environment,
                DURABILITY: self.durability,
                SIZE: str(work.size),
                ROUNDS: str(work.rounds),
            }
            workers: list[int] = []
            for number in range(
                work.processes
            ):  # one after the other: the first one makes the tables
                command = python("-m", "benchmarks.sides.langgraph_worker")
                workers.append(
                    stack.enter_context(
                        process(command, **environment, **{NUMBER: str(number)})
                    ).pid
                )
                until(lambda: tally.ready == len(workers), "a worker of LangGraph")
            speaking = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))

            def begin(runs: int) -> None:
                for number in range(work.processes):
                    share = len(range(number, runs, work.processes))
                    speaking.sendto(b"%d" % share, f"{tally.path}.{number}")

            yield Told(workers, [database.pid], tally=tally, begin=begin)
