"""Start-up: how long until a command replies, a worker plays, and the embedded server serves."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.measure import Measure
from benchmarks.processes import process, python, until
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import client_of, worker_command, worker_environment
from benchmarks.sides.plain import QUIET
from benchmarks.tally import tally
from perdure.worker.app import broker_url
from perdure.worker.embedded import EmbeddedServer

PYTHON = "python -c pass"
HELP, WORKER, SERVER = (
    "perdure --help",
    "perdure worker, until it plays",
    "the embedded server of Perdure, until it serves",
)
#: Seconds at most.
AIMS = {HELP: 0.25, WORKER: 1.0, SERVER: 0.2}


def measure(options: Options) -> Report:
    """Measure each several times, in turns."""
    found: dict[str, list[float]] = {}
    with redis_server() as server:
        sides: dict[str, Callable[[], float]] = {
            PYTHON: lambda: _command(*python("-c", "pass")),
            HELP: lambda: _command(*perdure(), "--help"),
            "perdure list": lambda: _command(*perdure(), "list", "--url", server.url),
            WORKER: lambda: _worker(server),
            "celery worker, until it is ready": lambda: _celery_worker(server),
            SERVER: _server,
        }
        for side in sides.values():
            side()  # modules are compiled, files are in the memory
        for _ in range(3 * options.passes):
            for name, side in sides.items():
                found.setdefault(name, []).append(side())
    measures = [Measure(name, "s", tuple(values), PYTHON) for name, values in found.items()]
    report = Report(
        "start",
        "Seconds from the start of a process (of the server: from the call) until it is ready.",
        measures,
    )
    report.notes += [
        f"{one.name}: {one.median:.2f} s; aim at most {AIMS[one.name]:g} s"
        for one in measures
        if one.name in AIMS
    ]
    return report


def perdure() -> list[str]:
    """Return the installed console command, or the module."""
    installed = Path(sys.executable).with_name("perdure")
    return [str(installed)] if installed.exists() else python("-m", "perdure")


def _command(*command: str) -> float:
    began = time.perf_counter()
    with process(command) as running:
        code = running.wait(30)
        seconds = time.perf_counter() - began
    assert code == 0, f"{' '.join(command)} ended with {code}"
    return seconds


def _worker(server: RedisServer) -> float:
    """Return the time until a worker plays a round.

    The round was queued before the worker started.
    """
    with closing(client_of(server)) as client, tally(stamping=True) as listening:
        run_id = client.submit("empty", "wait for a worker", {"rounds": 1}).id
        began = time.monotonic()
        with process(worker_command(), **worker_environment(server), **listening.environment):
            until(lambda: bool(listening.began), "the first round of a worker")
            client.wait(run_id, 30)
        return listening.began[0] - began


def _celery_worker(server: RedisServer) -> float:
    environment = {
        "BENCH_BROKER": broker_url(server.database(1)).replace("perdure+", "redis+"),
        "BENCH_SETTINGS": json.dumps({}),
    }
    with tally() as listening:
        began = time.monotonic()
        command = python(
            "-m",
            "celery",
            "-A",
            "benchmarks.sides.celery_app",
            "worker",
            *QUIET,
            "--pool",
            "threads",
            "--concurrency",
            "16",
        )
        with process(command, **environment, **listening.environment):
            until(lambda: listening.ready > 0, "a plain worker", every=0.002)
            return time.monotonic() - began


def _server() -> float:
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    server = EmbeddedServer(directory)
    try:
        began = time.perf_counter()
        server.start()
        return time.perf_counter() - began
    finally:
        server.stop()
        shutil.rmtree(directory)
