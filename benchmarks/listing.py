"""A page of the list of runs over HTTP. The number of runs grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

from benchmarks.bulk_runs import names, queue, settings_of, settle
from benchmarks.measure import Measure
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report, number

COUNTS, QUICK_COUNTS = (1_000, 10_000, 100_000), (100, 1_000)
#: Requests of each page in each pass.
CALLS, QUICK_CALLS = 11, 3
#: Greatest time of a page with the most runs, in milliseconds, and its greatest ratio to that with
#: the fewest.
AIM_MS, AIM_RATIO = 100.0, 1.5
#: The requested pages. The rare flow has no runs. Its page is the dearest, because it reads the
#: most runs that one page may read.
PAGES = {
    "page of 50": "limit=50",
    "page of 50 that are queued": "limit=50&status=queued",
    "page of 50 of a rare flow": "limit=50&flow=rare",
}


def measure(options: Options) -> Report:
    """Fill one server step by step, and request pages. One HTTP server serves them."""
    counts, calls = (QUICK_COUNTS, QUICK_CALLS) if options.quick else (COUNTS, CALLS)
    report = Report(
        "listing",
        "GET /api/v1/runs over loopback, from sending to the last byte, of one caller; "
        "the state server, the control room and the caller "
        "share the machine.",
    )
    with redis_server() as server, control_room(server) as url:
        done = 0
        for count in counts:
            queue(server, names(done, count - done))
            done = count
            settle(server)
            for page, query in PAGES.items():
                for _ in range(3):
                    milliseconds(f"{url}?{query}")
                values = tuple(
                    sorted(milliseconds(f"{url}?{query}") for _ in range(calls))[calls // 2]
                    for _ in range(options.passes)
                )
                base = f"{page}, beside {counts[0]:,}"
                report.measures.append(
                    Measure(
                        f"{page}, beside {count:,}",
                        "ms",
                        values,
                        None if count == counts[0] else base,
                    )
                )
    for page in PAGES:
        last = report.find(f"{page}, beside {counts[-1]:,}")
        times = report.ratio_of(last) or 0.0
        words = [
            "reached" if fits else "NOT reached"
            for fits in (last.median <= AIM_MS, times <= AIM_RATIO)
        ]
        report.notes.append(
            f"{page} beside {counts[-1]:,} runs: {number(last.median)} ms; "
            f"aim {AIM_MS:g}: {words[0]}. "
            f"{number(times)} x what it takes beside {counts[0]:,}; aim {AIM_RATIO:g}: {words[1]}"
        )
    return report


@contextmanager
def control_room(server: RedisServer) -> Iterator[str]:
    """Start an HTTP server in a thread. Yield the address of its list."""
    import socket

    import uvicorn

    from perdure.worker.web import create_app

    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(create_app(settings_of(server)), log_level="error"))
    thread = threading.Thread(target=running.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/runs"
    finally:
        running.should_exit = True
        thread.join()
        listener.close()


def milliseconds(url: str) -> float:
    """Return the milliseconds of one response."""
    began = time.perf_counter()
    with urlopen(url) as response:
        response.read()
    return 1000 * (time.perf_counter() - began)
