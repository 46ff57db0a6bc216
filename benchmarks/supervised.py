"""Recovery under a supervisor: from ``kill -9`` of one of two processes to the next claim.

It is measured twice: with one long round in the process, and with 64 runs of short rounds that keep
all threads of both processes busy. The second shows how often a kill hits a message that the
process had received and not yet claimed. No lease names that process, so the supervisor cannot end
it: the message is published again after ``resend_seconds``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from benchmarks.bulk_runs import INPUTS
from benchmarks.measure import Measure
from benchmarks.processes import process, until
from benchmarks.recovery import DEFAULTS, claimed, owner_of, spread
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import client_of, worker_command, worker_environment
from perdure.worker.client import Client
from perdure.worker.settings import Settings

PROCESSES = 2
#: Supervisors in each pass. Each process of one is killed once, because each replacement begins
#: later.
SUPERVISORS = 2
BUSY_RUNS = 64
#: Seconds of short rounds before a kill.
BUSY_SECONDS = 1.0
#: Seconds, at most.
AIM = 1.0
RESEND = Settings.model_fields["resend_seconds"].default
#: Seconds after a kill until a message that was not claimed is certainly published again: twice the
#: resend time, and a sweep.
RESENT_WITHIN = 2 * RESEND + 2


@dataclass(frozen=True)
class Busy:
    """Seconds after a kill until runs were queued again.

    Runs with a claimed round are separate from runs that only lost their message.
    """

    lost: list[float]
    resent: list[float]


def measure(options: Options) -> Report:
    """Kill each process of several supervisors. First they play one round, then short rounds."""
    supervisors = 1 if options.quick else SUPERVISORS * options.passes
    lone = [seconds for _ in range(supervisors) for seconds in _lone_kills()]
    busy = [found for _ in range(supervisors) for found in _busy_kills()]
    report = Report(
        "supervised",
        f"Seconds from kill -9 of one of {PROCESSES} processes under a supervisor to the next "
        "claim of its round on the same host.",
        [Measure("kill to the next claim", "s", tuple(lone))],
        settings=DEFAULTS | {"resend_seconds": RESEND, "busy runs": BUSY_RUNS},
    )
    report.notes.append(spread(lone, AIM))
    for name, groups in (
        ("rounds that were claimed", [one.lost for one in busy]),
        ("messages not yet claimed", [one.resent for one in busy]),
    ):
        seconds = [each for group in groups for each in group]
        if seconds:
            report.measures.append(
                Measure(
                    f"kill until queued again, beside {BUSY_RUNS} busy runs: {name}",
                    "s",
                    tuple(seconds),
                )
            )
        hit = sum(map(bool, groups))
        report.notes.append(
            f"beside {BUSY_RUNS} busy runs: {hit} of {len(busy)} kills hit {name}, "
            f"{len(seconds)} in all"
        )
    return report


@contextmanager
def _supervised() -> Iterator[tuple[RedisServer, Client, list[int]]]:
    """Start a server, a client and a supervisor's processes. The processes are ready."""
    with (
        redis_server() as server,
        closing(client_of(server)) as client,
        process(worker_command("--processes", str(PROCESSES)), **worker_environment(server)),
    ):
        until(lambda: len(_alive(client)) == PROCESSES, "the processes")
        yield server, client, _alive(client)


def _lone_kills() -> Iterator[float]:
    with _supervised() as (_, client, pids):
        for pid in pids:
            yield _lone_kill(client, pid)


def _lone_kill(client: Client, pid: int) -> float:
    run_id = claimed(client, pid)
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    until(lambda: owner_of(client, run_id) not in (None, pid), "the next claim")
    seconds = float((client._store.reads.fields(run_id) or {})["claimed_at"]) / 1000 - killed
    client.request_stop(run_id, mode="now")
    until(lambda: len(set(_alive(client)) - {pid}) == PROCESSES, "another process in its place")
    return seconds


def _busy_kills() -> Iterator[Busy]:
    with _supervised() as (server, client, pids):
        ids = [client.submit("empty", "go", INPUTS).id for _ in range(BUSY_RUNS)]
        for pid in pids:
            time.sleep(BUSY_SECONDS)
            killed = time.time()
            os.kill(pid, signal.SIGKILL)
            time.sleep(RESENT_WITHIN)
            yield Busy(
                _seconds(server, client, ids, "lost", killed),
                _seconds(server, client, ids, "resent", killed),
            )


def _seconds(
    server: RedisServer, client: Client, ids: list[str], type_: str, since: float
) -> list[float]:
    """Return the seconds until each event of this type."""
    streams = [
        server.redis.xrange(client._store.keys.events(run_id), min=str(int(1000 * since)))
        for run_id in ids
    ]
    return [
        float(event["at"]) / 1000 - since
        for stream in streams
        for _, event in stream
        if event["type"] == type_
    ]


def _alive(client: Client) -> list[int]:
    return [one["pid"] for one in client.workers() if one["alive"]]
