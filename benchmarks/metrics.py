"""A scrape of ``/metrics`` beside few and many runs."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack, closing

from benchmarks.bulk_runs import names, park, queue, settings_of, settle
from benchmarks.measure import Measure
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report, number
from perdure.worker.client import Client
from perdure.worker.metrics.exposition import exposition

SMALL, LARGE = 1_000, 100_000
QUICK_SMALL, QUICK_LARGE = 100, 1_000
#: Scrapes in each pass. Half of the runs are queued, half wait for a person.
SCRAPES, QUICK_SCRAPES = 50, 5
AIM_MS, AIM_RATIO = 50, 1.1


def measure(options: Options) -> Report:
    """Scrape two servers in turns. One has few runs, the other many."""
    small, large = (QUICK_SMALL, QUICK_LARGE) if options.quick else (SMALL, LARGE)
    scrapes = QUICK_SCRAPES if options.quick else SCRAPES
    report = Report(
        "metrics",
        "A scrape of /metrics: read from the server and written as text, without HTTP. "
        "Half of the runs are queued, half wait.",
    )
    with ExitStack() as stack:
        clients: dict[int, Client] = {}
        found: dict[int, list[list[float]]] = {small: [], large: []}
        for count in found:
            server = stack.enter_context(redis_server())
            park(server, names(0, count // 2))
            queue(server, names(count // 2, count - count // 2))
            settle(server)
            clients[count] = stack.enter_context(closing(Client(settings=settings_of(server))))
            exposition(clients[count])
        for _ in range(options.passes):
            passes: dict[int, list[float]] = {count: [] for count in found}
            for _ in range(scrapes):
                for count, times in passes.items():
                    times.append(_milliseconds(clients[count]))
            for count, times in passes.items():
                found[count].append(times)
    for count, values in found.items():
        base = f"scrape, {small:,} runs" if count != small else None
        report.measures.append(
            Measure(f"scrape, {count:,} runs", "ms", tuple(map(statistics.median, values)), base)
        )
    slowest = max(max(times) for times in found[large])
    among = report.measures[-1]
    times = report.ratio_of(among) or 0.0
    report.notes.append(
        f"{large:,} runs: {number(among.median)} ms, the slowest {number(slowest)}; "
        f"aim {AIM_MS}: {_word(slowest <= AIM_MS)}"
    )
    report.notes.append(
        f"{large:,} runs cost {number(times)} x what {small:,} do; "
        f"aim {AIM_RATIO:g}: {_word(times <= AIM_RATIO)}"
    )
    return report


def _word(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


def _milliseconds(client: Client) -> float:
    began = time.perf_counter()
    exposition(client)
    return 1000 * (time.perf_counter() - began)
