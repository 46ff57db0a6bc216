"""Recovery during a wave: a worker is killed while 30,000 sleepers wake together.

The time is from ``kill -9`` of the worker to the next claim of its round. There are two workers
with 16 threads each. The kills are spread, so that leases lapse before, during and after the time
in which the sweep wakes the sleepers. The remaining worker plays all sleepers.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass

from benchmarks.bulk_runs import names, sleep, still_asleep
from benchmarks.measure import Measure
from benchmarks.processes import process, until
from benchmarks.recovery import DEFAULTS, claimed, owner_of, spread
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import client_of, worker_command, worker_environment
from perdure.worker.client import Client

SLEEPERS, QUICK_SLEEPERS = 30_000, 500
#: Kills in each pass: 20 in the default of five passes.
KILLS = 4
#: Seconds from the waking of the sleepers to the first and to the last kill. A lease lapses 3 to 4
#: s after a kill.
FIRST, LAST = -3.5, 0.5
#: Seconds in which the sleepers are submitted and both workers start; more if that was not enough.
PREPARED, QUICK_PREPARED = 16.0, 10.0
#: Seconds, at most.
AIM = 5.0


@dataclass(frozen=True)
class Killed:
    """The times after a kill.

    It has the seconds until the lease lapsed, until the sweep queued the round again, and until it
    was claimed. It also has the number of sleepers that had not been woken when the lease lapsed.
    """

    lapsed: float
    queued: float
    claimed: float
    asleep: int


def measure(options: Options) -> Report:
    """Measure kills one after the other, each on a new server."""
    kills = 1 if options.quick else KILLS * options.passes
    count = QUICK_SLEEPERS if options.quick else SLEEPERS
    prepared = QUICK_PREPARED if options.quick else PREPARED
    found: list[Killed] = []
    while len(found) < kills:
        killed = _killed(count, prepared, FIRST + (LAST - FIRST) * len(found) / max(1, kills - 1))
        if killed is None:
            prepared *= 1.5  # the machine has other things to do
        else:
            found.append(killed)
    report = Report(
        "wave",
        "Seconds from kill -9 to the next claim of the round, "
        f"while {count:,} sleepers wake and are played.",
        [
            Measure("until the lease lapses", "s", tuple(one.lapsed for one in found)),
            Measure(
                "from there until the sweep queues the round again",
                "s",
                tuple(one.queued - one.lapsed for one in found),
            ),
            Measure(
                "from there until it is claimed",
                "s",
                tuple(one.claimed - one.queued for one in found),
            ),
            Measure("kill to the next claim", "s", tuple(one.claimed for one in found)),
        ],
        settings=DEFAULTS | {"sleepers": count},
    )
    seconds = report.measures[-1].values
    report.notes += [
        spread(seconds, AIM),
        (
            "sleepers that the sweep had still to wake when the lease lapsed: "
            f"{', '.join(f'{one.asleep:,}' for one in found)}"
        ),
    ]
    return report


def _killed(count: int, prepared: float, offset: float) -> Killed | None:
    """Kill the worker that plays a round. The kill is ``offset`` seconds after the wave begins.

    Returns:
        None if the wave came before everything was ready.
    """
    with redis_server() as server, closing(client_of(server)) as client:
        environment = worker_environment(server)
        begins = time.time() + prepared
        with (
            process(worker_command(), **environment) as standing_by,
            process(worker_command(), **environment) as doomed,
        ):
            sleep(server, names(0, count), begins)
            until(
                lambda: (
                    {standing_by.pid, doomed.pid}
                    <= {one["pid"] for one in client.workers() if one["alive"]}
                ),
                "two workers",
            )
            run_id = claimed(client, doomed.pid)
            wait = begins + offset - time.time()
            if wait < 0:
                return None
            time.sleep(wait)
            os.killpg(doomed.pid, signal.SIGKILL)
            killed = time.time()
            lease_until = float((client._store.reads.fields(run_id) or {})["lease_until"]) / 1000
            until(lambda: time.time() >= lease_until, "the lease to lapse")
            asleep = still_asleep(server, begins)
            until(lambda: owner_of(client, run_id) == standing_by.pid, "the next claim")
            claimed_at = float((client._store.reads.fields(run_id) or {})["claimed_at"]) / 1000
            return Killed(
                lease_until - killed, _lost_at(client, run_id) - killed, claimed_at - killed, asleep
            )


def _lost_at(client: Client, run_id: str) -> float:
    """Return when the sweep ended the lease."""
    return next(
        event.at.timestamp()
        for event in client.events(run_id, follow=False)
        if event.type == "lost"
    )
