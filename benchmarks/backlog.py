"""A queue of 100,000 runs: what it costs those who work through it, and the sweep."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass

from benchmarks.filling import FLOWS, names, queue, settings_of, settle
from benchmarks.measure import Measure
from benchmarks.processes import process, until
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report, number
from benchmarks.sides.holdfast import alive, worker_command
from worker.client import Client
from worker.lanes import LANES
from worker.record import SCHEMA
from worker.staying import STAY_SECONDS
from worker.sweep import BATCH

#: Runs in the queue: as few as keep a worker busy, and the backlog.
SMALL, LARGE, QUICK_LARGE = 200, 100_000, 2_000
THREADS = 16
#: Seconds for which a worker's rounds are counted.
SECONDS, QUICK_SECONDS = 5.0, 1.0
#: Sweeps that are measured when every run of the backlog has been looked at once.
SWEEPS = 50
#: Until each of the runs was to be claimed (ms), and is looked for.
GRACE_OVER = 3_000


@dataclass(frozen=True)
class Waded:
    """What one worker did with a queue: rounds a second; and microseconds in the script of a sweep that looks at a full batch of runs in
    line, and of one that finds nothing due; ``looked`` is what it took to look at each run once, in seconds.
    """

    rate: float
    full_sweep: float
    idle_sweep: float
    looked: float


def measure(options: Options) -> Report:
    """A short queue and a long one, in turns, each on a server of its own."""
    large, seconds = (QUICK_LARGE, QUICK_SECONDS) if options.quick else (LARGE, SECONDS)
    report = Report(
        "backlog",
        f"One worker of {THREADS} threads at a queue of few runs and at one of many, each of which has more rounds than are played; and "
        "the sweep.",
        settings={"seconds": seconds, "batch": BATCH},
    )
    found: dict[int, list[Waded]] = {SMALL: [], large: []}
    for _ in range(options.passes):
        for count, values in found.items():
            values.append(waded(count, seconds))
    for title, unit, of in (
        ("rounds", "rounds/s", lambda one: one.rate),
        (f"sweep of {BATCH} runs in line", "us", lambda one: one.full_sweep),
        ("sweep of none", "us", lambda one: one.idle_sweep),
        ("all sweeps until each was looked at", "s", lambda one: one.looked),
    ):
        for count, passes in found.items():
            base = f"{title}, {SMALL} runs queued" if count != SMALL and unit != "s" else None
            report.measures.append(Measure(f"{title}, {count:,} runs queued", unit, tuple(map(of, passes)), base))
    report.notes.append(
        f"A queue is first in, first out: a run stays for {STAY_SECONDS:g} s, and then waits behind all others, here "
        f"{number(large * STAY_SECONDS / LANES)} s. What shall not wait goes to another prefix, or is played by workers of its role "
        "alone."
    )
    return report


def waded(count: int, seconds: float) -> Waded:
    """Queue so many runs, sweep, and let a worker play."""
    with ExitStack() as stack:
        server = stack.enter_context(redis_server())
        client = stack.enter_context(closing(Client(settings=settings_of(server))))
        store = client._store
        queue(server, names(0, count))
        settle(server)
        now = store.time()

        def sweep(at: int) -> tuple[int, float]:
            """Runs that a sweep at this time looked at, and its microseconds."""
            store.now = at
            before = server.work().script_us
            looked = len(store.sweep(lease=4000, max_losses=10, jitter=0.5, batch=BATCH, schema=SCHEMA).report)
            store.now = None
            return looked, server.work().script_us - before

        now += GRACE_OVER
        full = [sweep(now)]
        while full[-1][0] == BATCH:  # each run is looked at once, soon after it was queued
            full.append(sweep(now))
        full.pop()
        idle = [sweep(now + 1 + place) for place in range(SWEEPS)]
        assert not any(looked for looked, _ in idle), (
            f"sweeps that should find nothing due looked at {sum(looked for looked, _ in idle)} runs"
        )
        environment = {"HOLDFAST_REDIS_URL": server.url, "HOLDFAST_FLOW_MODULES": FLOWS}
        stack.enter_context(process(worker_command("--pool", "threads", "--concurrency", str(THREADS)), **environment))
        until(lambda: alive(client) == 1, "the worker")

        def claims() -> int:
            """Rounds that have been claimed, by the token of the newest."""
            return int(server.redis.hget(store.keys.queues, "token") or 0)

        until(lambda: claims() > count // 10 or claims() > 200, "the first rounds")
        before, began = claims(), time.perf_counter()
        time.sleep(seconds)
        rate = (claims() - before) / (time.perf_counter() - began)
        spent = sum(us for _, us in full)
        return Waded(rate, spent / len(full), sum(us for _, us in idle) / len(idle), spent / 1e6)
