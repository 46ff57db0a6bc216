"""A simulated fleet: the limit of one Redis for 100, 1,000 and 10,000 workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from benchmarks.measure import Measure
from benchmarks.parked import LEASES, Others, sweep
from benchmarks.redis_server import RedisServer
from benchmarks.report import Options, Report, number, table
from benchmarks.script_driver import FETCHES, Driven, carried
from benchmarks.scripts import binaries, server
from benchmarks.simulated import Fleet, Outcome, Server, simulate, upkeep

WORKERS, SLOTS = (100, 1_000, 10_000), 10
LATENCIES = (0.0, 0.5, 2.0, 10.0)
#: Seconds of the fleet's time that are simulated: several rounds of each slot.
SECONDS, ROUNDS = 3.0, 2.0
#: Seconds for which the server is driven to measure a round; calls of each other kind.
DRIVEN, CALLS = 4.0, 400
#: If a server is as busy as this, its queue grows all the time.
OVERLOADED = 0.99
#: Workers that have announced themselves when the cost of an announcement among many is measured.
ANNOUNCED = 500
#: Heartbeats and sweeps as a large fleet might set them, in seconds.
SLOW_BEAT, SLOW_SWEEP = 5.0, 10.0


def measure(options: Options) -> Report:
    """Measure the server's needs, and simulate a fleet.

    The needs are the times of each operation of a real server.
    """
    name, binary = next(iter(binaries().items()))
    with server(binary) as running:
        real = needs(running, 0.3 if options.quick else DRIVEN, 40 if options.quick else CALLS)
    report = Report(
        "fleet",
        f"Simulated: workers with {SLOTS} slots each, rounds that wait for a model (log-normal), "
        f"one {name} with the measured needs.",
        settings={"needs_seconds": vars(real), "slots": SLOTS},
    )
    workers = WORKERS[:1] if options.quick else WORKERS
    rows: list[tuple[str, ...]] = [
        ("workers", "model", "rounds/s", "of ideal", "server busy", "upkeep of it", "wait p99")
    ]
    for latency in LATENCIES:
        for count in workers:
            fleet = Fleet(count, SLOTS, latency)
            outcome = simulate(fleet, real, max(SECONDS, ROUNDS * latency))
            rows.append(row(count, latency, outcome))
            report.measures.append(
                Measure(
                    f"rounds, {count:,} workers, model of {latency:g} s",
                    "rounds/s",
                    (outcome.rate,),
                )
            )
    report.shown = "\n".join([report.about, *table(rows, right=range(7))])
    report.notes = notes(real)
    return report


def needs(running: Any, seconds: float, calls: int) -> Server:
    """Return the server's CPU seconds for each operation. Sockets and log are included."""
    one_round = carried(
        Driven(str(running.socket), mode=FETCHES), seconds
    )  # a round that waits for a model is longer than a run stays
    redis_server = RedisServer(running)
    with closing(Others(redis_server)) as others:
        store = others.store
        now = store.time()

        def announced(name: str = "machine-0001:1") -> None:
            store.fleet.announce(
                name,
                {
                    "flows": {flow: {} for flow in "abc"},
                    "host": "machine-0001",
                    "pid": 1,
                    "role": "any",
                },
                now,
                0,
            )

        costs = {
            "one": _cost(redis_server, lambda: store.rounds.extend(others.leases[:1]), calls),
            "all": _cost(redis_server, lambda: store.rounds.extend(others.leases), calls),
            "sweep": _cost(redis_server, lambda: sweep(store), calls),
            "idle": _cost(
                redis_server,
                lambda: redis_server.redis.brpop(["no such list"], timeout=0.001),
                calls,
            ),
            "alone": _cost(redis_server, announced, calls),
        }
        for number_ in range(ANNOUNCED):
            announced(f"machine-{number_:04}:2")
        among = _cost(redis_server, announced, calls)
    lease, each = (
        (costs["all"] - costs["one"]) / (LEASES - 1),
        max(0.0, (among - costs["alone"]) / ANNOUNCED),
    )
    return Server(
        one_round.main / one_round.rounds,
        (costs["one"] - lease, lease),
        costs["sweep"],
        (costs["alone"], each),
        costs["idle"],
    )


def row(workers: int, latency: float, outcome: Outcome) -> tuple[str, ...]:
    """Return one line of the table."""
    shares = (
        f"{100 * part:.0f} %"
        for part in (outcome.rate / outcome.ideal, outcome.busy, outcome.upkeep)
    )
    wait = f"{1000 * outcome.late:.1f} ms" if outcome.busy < OVERLOADED else "overloaded"
    return f"{workers:,}", f"{latency:g} s", f"{outcome.rate:,.0f}", *shares, wait


def notes(real: Server) -> list[str]:
    """Return the limits, and the changes that move them."""
    beat, lease, alone, among = (
        number(1e6 * need) for need in (*real.beat, real.announce[0], 1_000 * real.announce[1])
    )
    turn, sweep, idle = (number(1e6 * need) for need in (real.round, real.sweep, real.idle))
    limits = (
        f"one core of this server carries {1 / real.round:,.0f} rounds/s ({turn} us each); "
        f"a beat takes {beat} us and {lease} us a lease, a sweep {sweep} us, "
        f"an announcement {alone} us and {among} us for each thousand workers, "
        f"an empty wait for a message {idle} us"
    )
    said = [limits]
    for told, one in (
        ("as set by default", Fleet(1, SLOTS)),
        (
            (
                f"with a sweep every {SLOW_SWEEP:g} s and a beat every {SLOW_BEAT:g} s "
                f"(leases of {4 * SLOW_BEAT:g} s)"
            ),
            Fleet(1, SLOTS, beat_every=SLOW_BEAT, sweep_every=SLOW_SWEEP),
        ),
    ):
        said.append(
            f"{told}, the upkeep (beats, sweeps, announcements, waits) "
            f"of {most_workers(one, real, 1.0):,} workers with {SLOTS} leases "
            f"each fills one core, that of {most_workers(one, real, 0.2):,} takes a fifth of it"
        )
    return said


def most_workers(one: Fleet, real: Server, share: float) -> int:
    """Return the number of workers whose upkeep takes this share.

    The share is that of the server's core.
    """
    few, many = 1, 1_000_000
    while few < many:
        middle = (few + many) // 2
        if upkeep(replace(one, workers=middle), real, one.slots) < share:
            few = middle + 1
        else:
            many = middle
    return few


def _cost(running: RedisServer, call: Callable[[], object], calls: int) -> float:
    """Return the server thread's CPU seconds for one call."""
    call()
    before = _cpu(running)
    for _ in range(calls):
        call()
    return (_cpu(running) - before) / calls


def _cpu(running: RedisServer) -> float:
    info: Any = running.redis.info("cpu")
    return float(info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"])
