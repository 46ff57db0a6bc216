"""Stops: how long until a run is stopped, and until its slot is free."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial

from benchmarks.measure import Measure, percentile
from benchmarks.processes import process, until
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import client_of, worker_command, worker_environment
from perdure.worker.client import Client
from perdure.worker.domain.run import RunStatus

STOPS, QUICK_STOPS = 10, 2
#: Rounds of a run that is stopped: more than it can have played by then.
ENDLESS = 1_000_000
MEASURED = {
    "now: the call returns, and the run is stopped": "ms",
    "now: the slot of its round, which slept, is free": "ms",
    "graceful: the run, in the middle of empty rounds, is stopped": "ms",
}


def measure(options: Options) -> Report:
    """Measure the medians of several stops in each pass."""
    stops = QUICK_STOPS if options.quick else STOPS
    found: dict[str, list[float]] = {name: [] for name in MEASURED}
    with redis_server() as server, closing(client_of(server)) as client:
        for _ in range(options.passes):
            with process(
                worker_command("--concurrency", "1"), **worker_environment(server)
            ) as worker:
                until(partial(_is_there, client, worker.pid), "a worker")
                each = zip(*(_now(client) for _ in range(stops)), strict=True)
                values = [*each, [_graceful(client) for _ in range(stops)]]
            for name, several in zip(MEASURED, values, strict=True):
                found[name].append(1000 * percentile(list(several), 0.5))
    about = (
        f"Milliseconds from the request of a stop; medians of {stops} in each pass, "
        "one worker with one slot."
    )
    measures = [
        Measure(f"Perdure, {name}", MEASURED[name], tuple(values)) for name, values in found.items()
    ]
    return Report("stops", about, measures, settings={"stops": stops})


def _is_there(client: Client, pid: int) -> bool:
    return any(one["alive"] and one["pid"] == pid for one in client.workers())


def _now(client: Client) -> tuple[float, float]:
    """Return the seconds of the call and the slot.

    They count until the call has returned, and until another run has used the slot.
    """
    run = client.submit("sleeper", "sleep")
    until(lambda: client.get(run.id).phase == "leased", "a round under way")
    began = time.perf_counter()
    receipt = client.request_stop(run.id, mode="now")
    called = time.perf_counter() - began
    assert receipt.stopped, f"run {run.id} was not stopped by the call: {receipt}"
    client.wait(client.submit("empty", "behind it", {"rounds": 1}).id, 60)
    return called, time.perf_counter() - began


def _graceful(client: Client) -> float:
    """Return the seconds until a run of empty rounds is stopped."""
    run = client.submit("empty", "go on", {"rounds": ENDLESS})
    until(lambda: client.get(run.id).state.step > 10, "a run on its way")
    began = time.perf_counter()
    client.request_stop(run.id, mode="graceful")
    assert client.wait(run.id, 60).status is RunStatus.STOPPED
    return time.perf_counter() - began
