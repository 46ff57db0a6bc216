"""Recovery: from ``kill -9`` of a worker to the next claim of its round.

There is no comparison with plain Celery. With early acks it loses the round, and with late acks the
round comes again after the visibility timeout, by default an hour.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import closing

from benchmarks.measure import Measure, percentile
from benchmarks.processes import process, until
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import client_of, worker_command, worker_environment
from perdure.worker.client import Client
from perdure.worker.settings import Settings

#: Settings that the seconds depend on.
DEFAULTS = {
    name: Settings.model_fields[name].default
    for name in ("lease_seconds", "heartbeat_seconds", "sweep_seconds")
}


def measure(options: Options) -> Report:
    """Kill one worker in each pass, while a second one is idle."""
    with redis_server() as server, closing(client_of(server)) as client:
        environment = worker_environment(server)
        with process(worker_command(), **environment) as standing_by:
            found = [_killed(client, standing_by.pid, environment) for _ in range(options.passes)]
    return Report(
        "recovery",
        "Seconds from kill -9 to the next claim.",
        [Measure("Perdure", "s", tuple(found))],
        settings=DEFAULTS,
    )


def _killed(client: Client, standing_by: int, environment: dict[str, str]) -> float:
    """Return the seconds until the idle worker takes over.

    It then has the round of the killed one.
    """
    with process(worker_command(), **environment) as doomed:
        until(
            lambda: (
                {standing_by, doomed.pid}
                <= {one["pid"] for one in client.workers() if one["alive"]}
            ),
            "two workers",
        )
        run_id = claimed(client, doomed.pid)
        began = time.perf_counter()
        os.killpg(doomed.pid, signal.SIGKILL)
        until(lambda: owner_of(client, run_id) == standing_by, "the next claim")
        seconds = time.perf_counter() - began
    client.request_stop(run_id, mode="now")
    return seconds


def spread(seconds: Sequence[float], aim: float) -> str:
    """Return a sentence about the seconds of many kills.

    They are the seconds after each kill. With fewer than 100 kills, p99 is the greatest.
    """
    p99 = percentile(seconds, 0.99)
    return (
        f"{len(seconds)} kills: median {percentile(seconds, 0.5):.2f} s, "
        f"p90 {percentile(seconds, 0.9):.2f} s, p99 {p99:.2f} s, greatest {max(seconds):.2f} s; "
        f"aim: p99 at most {aim:g} s: {'' if p99 <= aim else 'NOT '}reached"
    )


def claimed(client: Client, pid: int) -> str:
    """Return a run whose round this process just began."""
    while True:
        run_id = client.submit("sleeper", "sleep", {"seconds": 30}).id
        if _owned(client, run_id) == pid:
            return run_id
        client.request_stop(run_id, mode="now")


def _owned(client: Client, run_id: str) -> int | None:
    until(lambda: owner_of(client, run_id) is not None, "a claim")
    return owner_of(client, run_id)


def owner_of(client: Client, run_id: str) -> int | None:
    """Return the process that holds the run's round."""
    owner = client.get(run_id).details.get("owner")
    return int(owner.rpartition(":")[2]) if owner else None
