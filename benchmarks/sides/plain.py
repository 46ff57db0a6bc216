"""Plain Celery: a task that enqueues the next round by itself, with its state in the message.

Only its message stores a run. With early acks, the message of a dying worker is lost. With late
acks it comes again after the visibility timeout (an hour).

The settings are common ones that allow a fair comparison:

- prefork (Celery's default) with as many processes as cores, and with one more.
- solo workers in the same numbers.
- one worker with 16 threads, and as many such workers as cores. gevent and eventlet are not
  measured, because the whole application must be written for them.
- early acks (the default) with the default prefetch of 4; late acks with a prefetch of 1, which is
  the usual advice, and of 4.
- without results (task_ignore_result), and with a Redis result backend on the broker's server.

The log level is ERROR (at INFO Celery writes two lines for each task), without gossip, mingle and
event heartbeat. All of this favours Celery. Everything else is the default: ack emulation on,
remote control on, pools of 10 connections.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.processes import process, python, until
from benchmarks.redis_server import redis_server
from benchmarks.sides.celery_app import ROUND, make_app
from benchmarks.sides.side import Session, Side
from benchmarks.tally import Tally
from benchmarks.work import THREADS, Work, state_after
from perdure.worker.app import broker_url

QUIET = ("--loglevel", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat")


@dataclass(frozen=True)
class Plain(Side):
    """Plain Celery.

    Attributes:
        pool: prefork, solo or threads.
        late: Late acks.
        prefetch: Celery's worker_prefetch_multiplier.
        results: Whether each task's result is stored in Redis.
        single: One process, even if the work asks for more.
        more: Processes in addition to the number of the work.
    """

    pool: str = "prefork"
    late: bool = False
    prefetch: int = 4
    results: bool = False
    single: bool = False
    more: int = 0

    def missing(self) -> str | None:
        return None

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            server = stack.enter_context(redis_server())
            broker = broker_url(server.url).replace("perdure+", "redis+")
            settings: dict[str, Any] = {
                "task_acks_late": self.late,
                "worker_prefetch_multiplier": self.prefetch,
                "task_ignore_result": not self.results,
            }
            if self.results:
                settings["result_backend"] = broker
            processes = work.processes + self.more
            slots = {"prefork": processes, "solo": 1, "threads": THREADS}[self.pool]
            command = python(
                "-m",
                "celery",
                "-A",
                "benchmarks.sides.celery_app",
                "worker",
                *QUIET,
                "--pool",
                self.pool,
                "--concurrency",
                str(slots),
            )
            environment = {
                "BENCH_BROKER": broker,
                "BENCH_SETTINGS": json.dumps(settings),
                **tally.environment,
            }
            count = 1 if self.single or self.pool == "prefork" else processes
            workers = [
                stack.enter_context(
                    process([*command, "--hostname", f"plain{number}@%h"], **environment)
                ).pid
                for number in range(count)
            ]
            until(lambda: tally.ready == count, f"{count} plain workers")
            app = make_app(broker, settings)
            stack.callback(app.close)
            yield PlainSession(workers, [server.pid], server, app=app, tally=tally, work=work)


@dataclass
class PlainSession(Session):
    """Workers that are ready."""

    app: Any = None
    tally: Tally | None = None
    work: Work | None = None

    def start(self, runs: int) -> None:
        assert self.work is not None
        play = self.app.tasks[ROUND]
        for _ in range(runs):
            play.delay(state_after(0, self.work.size), 0, self.work.rounds)

    def ended(self) -> int:
        assert self.tally is not None
        return self.tally.ended

    def rounds(self) -> int:
        assert self.tally is not None
        return self.tally.rounds
