"""A queue of 100,000 runs: its cost for the worker that plays them, and for the sweep."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass

from benchmarks.bulk_runs import FLOWS, names, queue, settings_of, settle
from benchmarks.measure import Measure
from benchmarks.processes import process, until
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report, number
from benchmarks.sides.perdure import alive, worker_command
from perdure.worker.client import Client
from perdure.worker.domain.record import SCHEMA
from perdure.worker.engine.fast.affinity import STAY_SECONDS
from perdure.worker.engine.fast.cpu_limiter import SLOTS
from perdure.worker.engine.sweeper import BATCH

#: Runs in the queue: just enough to keep a worker busy, and the backlog.
SMALL, LARGE, QUICK_LARGE = 200, 100_000, 2_000
THREADS = 16
#: Seconds for which a worker's rounds are counted.
SECONDS, QUICK_SECONDS = 5.0, 1.0
#: Sweeps that are measured after every run of the backlog has been looked at once.
SWEEPS = 50
#: Milliseconds after which each run should have been claimed, and the sweep looks for it.
GRACE_OVER = 3_000


@dataclass(frozen=True)
class Waded:
    """One worker's result with a queue.

    Attributes:
        rate: Rounds a second.
        full_sweep: Microseconds in the script of a sweep of a full batch of queued runs.
        idle_sweep: The same for a sweep that finds no run due.
        looked: Seconds until each run was looked at once.
    """

    rate: float
    full_sweep: float
    idle_sweep: float
    looked: float


def measure(options: Options) -> Report:
    """Measure a short and a long queue in turns. Each has its own server."""
    large, seconds = (QUICK_LARGE, QUICK_SECONDS) if options.quick else (LARGE, SECONDS)
    report = Report(
        "backlog",
        f"One worker of {THREADS} threads with a queue of few runs and with one of many, "
        "each of which has more rounds than are played; and "
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
            report.measures.append(
                Measure(f"{title}, {count:,} runs queued", unit, tuple(map(of, passes)), base)
            )
    report.notes.append(
        f"A queue is first in, first out: a run stays for {STAY_SECONDS:g} s, and then waits "
        f"behind all others, here {number(large * STAY_SECONDS / SLOTS)} s. "
        "Put urgent runs under another prefix, or give their role separate workers."
    )
    return report


def waded(count: int, seconds: float) -> Waded:
    """Queue ``count`` runs, sweep, and let a worker play."""
    with ExitStack() as stack:
        server = stack.enter_context(redis_server())
        client = stack.enter_context(closing(Client(settings=settings_of(server))))
        store = client._store
        queue(server, names(0, count))
        settle(server)
        now = store.time()

        def sweep(at: int) -> tuple[int, float]:
            """Sweep at this time. Return the number of examined runs, and the microseconds."""
            store.now = at
            before = server.work().script_us
            looked = len(
                store.fleet.sweep(
                    lease=4000, max_losses=10, jitter=0.5, batch=BATCH, schema=SCHEMA
                ).report
            )
            store.now = None
            return looked, server.work().script_us - before

        now += GRACE_OVER
        full = [sweep(now)]
        while full[-1][0] == BATCH:  # each run is looked at once, soon after it was queued
            full.append(sweep(now))
        full.pop()
        idle = [sweep(now + 1 + place) for place in range(SWEEPS)]
        assert not any(looked for looked, _ in idle), (
            f"sweeps that should find no run due looked at {sum(looked for looked, _ in idle)} runs"
        )
        environment = {"PERDURE_REDIS_URL": server.url, "PERDURE_FLOW_MODULES": FLOWS}
        stack.enter_context(
            process(
                worker_command("--pool", "threads", "--concurrency", str(THREADS)), **environment
            )
        )
        until(lambda: alive(client) == 1, "the worker")

        def claims() -> int:
            """Return how many rounds have been claimed, by the newest token."""
            return int(server.redis.hget(store.keys.queues, "token") or 0)

        until(lambda: claims() > count // 10 or claims() > 200, "the first rounds")
        before, began = claims(), time.perf_counter()
        time.sleep(seconds)
        rate = (claims() - before) / (time.perf_counter() - began)
        spent = sum(us for _, us in full)
        return Waded(rate, spent / len(full), sum(us for _, us in idle) / len(idle), spent / 1e6)
