"""Recovery: from ``kill -9`` of the worker that plays a round until another worker has claimed that round.

Plain Celery is not beside it: with early acks the round is lost for good, with late ones it comes again after the visibility timeout, an
hour by default.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing

from benchmarks.measure import Measure
from benchmarks.processes import process, until
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.holdfast import client_of, worker_command, worker_environment
from worker.client import Client
from worker.settings import Settings


def measure(options: Options) -> Report:
    """One kill a pass; a second worker stands by."""
    defaults = {name: Settings.model_fields[name].default for name in ("lease_seconds", "heartbeat_seconds", "sweep_seconds")}
    with redis_server() as server, closing(client_of(server)) as client:
        environment = worker_environment(server)
        with process(worker_command(), **environment) as standing_by:
            found = [_killed(client, standing_by.pid, environment) for _ in range(options.passes)]
    return Report("recovery", "Seconds from kill -9 to the next claim.", [Measure("Holdfast", "s", tuple(found))], settings=defaults)


def _killed(client: Client, standing_by: int, environment: dict[str, str]) -> float:
    """Seconds until the worker that stands by has the round of one that was killed."""
    with process(worker_command(), **environment) as doomed:
        until(lambda: {standing_by, doomed.pid} <= {one["pid"] for one in client.workers() if one["alive"]}, "two workers")
        run_id, owner = _claimed(client)
        while owner != doomed.pid:
            client.request_stop(run_id, mode="now")
            run_id, owner = _claimed(client)
        began = time.perf_counter()
        os.killpg(doomed.pid, signal.SIGKILL)
        until(lambda: _owner(client, run_id) == standing_by, "the next claim")
        seconds = time.perf_counter() - began
    client.request_stop(run_id, mode="now")
    return seconds


def _claimed(client: Client) -> tuple[str, int | None]:
    """A run whose round is under way, and who plays it."""
    run_id = client.submit("sleeper", "sleep", {"seconds": 30}).id
    until(lambda: _owner(client, run_id) is not None, "a claim")
    return run_id, _owner(client, run_id)


def _owner(client: Client, run_id: str) -> int | None:
    """The process that holds the run's round."""
    owner = client.get(run_id).details.get("owner")
    return int(owner.rpartition(":")[2]) if owner else None
