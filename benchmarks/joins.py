"""Joins: pieces of work whose results are joined, beside Celery's chord and while workers die.

A chord counts the results of its header tasks on a Redis result backend, and then sends its body.
Both sides have as many slots, and late acks, so that neither loses the messages of a dying worker.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from typing import Any

from celery import chord
from celery.exceptions import TimeoutError as ChordTimeout

from benchmarks.measure import Measure
from benchmarks.processes import process, python, until
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.celery_app import ITEM, JOIN, make_app
from benchmarks.sides.perdure import client_of, worker_command, worker_environment
from benchmarks.sides.plain import QUIET
from benchmarks.tally import tally
from perdure.worker.app import broker_url

#: Pieces of a join with a measured rate, and the number that Perdure plays at a time.
PIECES, QUICK_PIECES, AT_ONCE = 1_000, 50, 100
#: Joins in each of which a worker is killed, and their pieces and seconds a piece.
JOINS, QUICK_JOINS = 50, 2
CHORDS, QUICK_CHORDS = 10, 1
KILLED_PIECES, PIECE_SECONDS = 200, 0.02
#: Seconds from the start of a join to the kill, at most. It takes about 0.5 s.
KILL_WITHIN = 0.4
#: Seconds after which a join under a kill counts as lost.
PATIENCE, QUICK_PATIENCE = 30.0, 20.0
SLOTS = 8
LATE: dict[str, Any] = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_prefetch_multiplier": 1,
    "broker_transport_options": {"visibility_timeout": 5},
}
#: The chord's workers: name, pool and prefetch.
CHORD_SIDES = (
    ("Celery's chord, prefork", "prefork", 1),
    ("Celery's chord, prefork, prefetch of 4", "prefork", 4),
    ("Celery's chord, threads", "threads", 1),
)

#: Plays a join of pieces, given their number, the seconds that each takes, and the patience in
#: seconds. Returns how many pieces were joined, or None if the join did not end in time.
Join = Callable[[int, float, float], int | None]


def measure(options: Options) -> Report:
    """Measure the rates, then the joins under kills.

    The rates are measured in each pass, the joins once.
    """
    pieces = QUICK_PIECES if options.quick else PIECES
    found: dict[str, list[float]] = {name: [] for name, *_ in CHORD_SIDES} | {"Perdure": []}
    for _ in range(options.passes):
        for name, pool, prefetch in CHORD_SIDES:
            with chords(pool, prefetch) as (join, *_):
                found[name].append(_rate(join, pieces))
        with maps() as (join, *_):
            found["Perdure"].append(_rate(join, pieces))
    patience = QUICK_PATIENCE if options.quick else PATIENCE
    joins, others = (QUICK_JOINS, QUICK_CHORDS) if options.quick else (JOINS, CHORDS)
    base = max(CHORD_SIDES, key=lambda side: statistics.median(found[side[0]]))[0]
    return Report(
        "joins",
        f"{pieces} empty pieces of work whose results are joined, pieces a second. Perdure: a map, "
        f"{AT_ONCE} at a time. Two workers with {SLOTS} threads each, or with one process each "
        "(prefork). Late acks, and the messages' and results' Redis with everysec. The base is the "
        "fastest chord.",
        [Measure(name, "pieces/s", tuple(found[name])) for name, *_ in CHORD_SIDES]
        + [Measure("Perdure", "pieces/s", tuple(found["Perdure"]), base)],
        notes=[
            _killed("Perdure", maps, joins, patience),
            _killed("Celery's chord", partial(chords, "threads", 1), others, patience),
        ],
    )


class Fleet:
    """Two worker processes. One may be killed and replaced."""

    def __init__(self, stack: ExitStack, ready: Callable[[], int], start: Callable[[int], Any]):
        self._stack, self._ready, self._start = stack, ready, start
        self._names = count()
        self._running = [self._one() for _ in range(2)]
        until(lambda: ready() >= 2, "the workers")

    def _one(self) -> subprocess.Popen[bytes]:
        started: subprocess.Popen[bytes] = self._stack.enter_context(self._start(next(self._names)))
        return started

    def replace(self) -> None:
        """Kill the older worker, and start another one."""
        oldest = self._running.pop(0)
        os.killpg(oldest.pid, signal.SIGKILL)
        oldest.wait()
        self._running.append(self._one())

    def at_full_strength(self) -> None:
        """Wait until all started workers have been ready."""
        started = next(self._names)
        self._names = count(started)
        until(lambda: self._ready() >= started, "the workers")


@contextmanager
def maps() -> Iterator[tuple[Join, Fleet]]:
    """Yield a join by Perdure's map, and its workers."""
    with ExitStack() as stack:
        server = stack.enter_context(redis_server("everysec"))
        client = stack.enter_context(closing(client_of(server)))
        command = worker_command("--pool", "threads", "--concurrency", str(SLOTS))
        seen: set[str] = set()

        def ready() -> int:
            seen.update(worker["name"] for worker in client.workers())
            return len(seen)

        def join(pieces: int, seconds: float, patience: float) -> int | None:
            inputs = {"items": pieces, "at_once": AT_ONCE, "seconds": seconds}
            run = client.submit("wide", "go", inputs)
            try:
                return int(client.wait(run.id, patience).answer)
            except TimeoutError:
                return None

        environment = worker_environment(server)
        yield join, Fleet(stack, ready, lambda _: process(command, **environment))


@contextmanager
def chords(pool: str, prefetch: int) -> Iterator[tuple[Join, Fleet]]:
    """Yield a join by Celery's chord, and its workers."""
    with ExitStack() as stack:
        server = stack.enter_context(redis_server("everysec"))
        listening = stack.enter_context(tally())
        broker = broker_url(server.url).replace("perdure+", "redis+")
        settings = LATE | {"worker_prefetch_multiplier": prefetch, "result_backend": broker}
        environment = {
            "BENCH_BROKER": broker,
            "BENCH_SETTINGS": json.dumps(settings),
            **listening.environment,
        }
        slots = {"prefork": 1, "threads": SLOTS}[pool]
        app = make_app(broker, settings)
        stack.callback(app.close)

        def join(pieces: int, seconds: float, patience: float) -> int | None:
            header = [app.tasks[ITEM].s(number, seconds) for number in range(pieces)]
            result = chord(header)(app.tasks[JOIN].s())
            try:
                return int(result.get(timeout=patience))
            except ChordTimeout:
                return None
            finally:
                result.forget()  # its subscription ends before the server does

        def start(number: int) -> Any:
            command = ("-m", "celery", "-A", "benchmarks.sides.celery_app", "worker", *QUIET)
            options = ("--pool", pool, "--concurrency", str(slots), "-n", f"chord{number}@%h")
            return process(python(*command, *options), **environment)

        yield join, Fleet(stack, lambda: listening.ready, start)


def _rate(join: Join, pieces: int) -> float:
    began = time.monotonic()
    assert join(pieces, 0.0, 600.0) == pieces, "pieces were lost"
    return pieces / (time.monotonic() - began)


def _killed(name: str, up: Callable[[], Any], joins: int, patience: float) -> str:
    """Play joins, and kill a worker in each.

    Return a sentence on the joins that ended with all pieces.
    """
    whole, seconds = 0, []
    with up() as (join, fleet):
        for _ in range(joins):
            fleet.at_full_strength()
            killing = threading.Timer(random.uniform(0.05, KILL_WITHIN), fleet.replace)
            killing.start()
            began = time.monotonic()
            answer = join(KILLED_PIECES, PIECE_SECONDS, patience)
            if answer == KILLED_PIECES:
                whole += 1
                seconds.append(time.monotonic() - began)
            killing.join()
    took = f", {statistics.median(seconds):.1f} s (median)" if seconds else ""
    return (
        f"{name}: of {joins} joins of {KILLED_PIECES} pieces, a worker killed in each, "
        f"{whole} ended within {patience:g} s with every piece once{took}"
    )
