"""One trial: a side does the work once, and is measured."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.processes import cpu_seconds, until
from benchmarks.redis_server import RedisServer
from benchmarks.sides.side import Session, Side
from benchmarks.tally import tally
from benchmarks.work import Work

#: Runs before the clock starts, for each process. Then connections are open, modules are loaded,
#: and the server knows the scripts.
WARM_UP = 8
#: Seconds that a side may take for one pass.
PATIENCE = 600.0
#: Runs that are played once more, under MONITOR, to count the commands.
WATCHED = 4


@dataclass(frozen=True)
class Played:
    """One side's needs in one pass. They are per round where this makes sense.

    Attributes:
        rate: Rounds a second.
        worker_cpu, server_cpu: Microseconds a round, or None if this system does not report them.
        redis: A Redis's own figures, by name: script calls, microseconds in scripts, bytes received
            and sent, all per round.
        commands: Commands of clients to Redis, per round.
    """

    rate: float
    worker_cpu: float | None
    server_cpu: float | None
    redis: Mapping[str, float]
    commands: Mapping[str, float]

    @property
    def all_cpu(self) -> float | None:
        """CPU time of workers and server together.

        The highest possible rate of a machine is one over this, and it drifts less than the clock.
        """
        return (
            None
            if self.worker_cpu is None or self.server_cpu is None
            else self.worker_cpu + self.server_cpu
        )


def play(side: Side, work: Work, watch: bool = False) -> Played:
    """Start the side, do the work, and stop it. It warms up first.

    Args:
        watch: Also count the commands, after the clock has stopped.

    Raises:
        TimeoutError: It did not finish in time.
        AssertionError: It played another number of rounds than expected.
    """
    work = replace(work, runs=max(1, round(work.runs * side.share)))
    warm = min(work.runs, max(1, round(WARM_UP * work.processes * side.share)))
    with tally() as listening, side.up(work, listening) as session:
        session.start(warm)
        _await(session, warm, "warm-up")
        workers, servers = cpu_seconds(session.workers), cpu_seconds(session.servers)
        before = session.redis.work() if session.redis else None
        began = time.perf_counter()
        session.start(work.runs)
        _await(session, warm + work.runs, f"{work.runs} runs of {side.name}")
        seconds = time.perf_counter() - began
        rounds = work.runs * work.rounds
        done = session.redis.work().since(before) if session.redis and before else None
        told: dict[str, float] = {}
        if done is not None:
            told = {
                "scripts": done.script_calls,
                "script us": done.script_us,
                "bytes in": done.received,
                "bytes out": done.sent,
            }
        played = Played(
            rounds / seconds,
            _each(workers, cpu_seconds(session.workers), rounds),
            1e6 * done.cpu / rounds
            if done
            else _each(servers, cpu_seconds(session.servers), rounds),
            {name: value / rounds for name, value in told.items()},
            _watched(session, session.redis, warm + work.runs, work)
            if watch and session.redis
            else {},
        )
        extra = WATCHED if played.commands else 0
        really, expected = session.rounds(), (warm + work.runs + extra) * work.rounds
        assert really == expected, (
            f"{side.name} played {really} rounds; {expected} were to be played"
        )
    return played


def _await(session: Session, runs: int, what: str) -> None:
    until(lambda: session.ended() >= runs, f"the end of {what}", PATIENCE, session.every)


def _each(before: float | None, after: float | None, rounds: int) -> float | None:
    return None if before is None or after is None else 1e6 * (after - before) / rounds


def _watched(session: Session, server: RedisServer, ended: int, work: Work) -> dict[str, float]:
    """Return a round's commands, as the server sees them.

    Commands inside scripts are not counted.
    """
    mark = "benchmarks:end"
    with server.redis.monitor() as monitor:
        session.start(WATCHED)
        _await(session, ended + WATCHED, "the watched runs")
        server.redis.ping()
        server.redis.echo(mark)
        heard: Counter[str] = Counter()
        for said in monitor.listen():
            if mark in said["command"]:
                break
            if said["client_type"] != "lua":
                heard[said["command"].split(" ", 1)[0].lower()] += 1
    rounds = WATCHED * work.rounds
    for ours in (
        "ping",
        "zcard",
        "info",
        "monitor",
    ):  # of this process, and the heartbeats' share is too small to show
        heard.pop(ours, None)
    return {name: count / rounds for name, count in heard.most_common() if count / rounds >= 0.05}
