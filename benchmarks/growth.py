"""Growth of a round's cost with its run's rounds.

It makes the same addition to the history in a run of 10 rounds and in one of 10,000.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Measure
from benchmarks.redis_server import RedisServer, log_size, redis_server
from benchmarks.report import Options, Report, number
from perdure.worker.app import engine_of, make_app
from perdure.worker.client import Client
from perdure.worker.settings import Settings

#: Rounds that a run has had. The others are compared with the first number.
DEPTHS, QUICK_DEPTHS = (10, 100, 1_000, 10_000), (10, 100)
#: Rounds that are measured at each depth, in each pass; for a short run, a few of each of many
#: runs.
ROUNDS, QUICK_ROUNDS = 200, 20
#: From this depth, a run is used again in the next pass.
LONG = 1_000
#: Bytes of each addition.
ADDITION = 500
#: Greatest ratio of the last depth's cost to the first depth's.
AIM = 1.2
FLOWS = "benchmarks.loads"


@dataclass(frozen=True)
class Cost:
    """Cost of one round; times are in microseconds.

    Attributes:
        received: Bytes to the server.
        sent: Bytes from the server.
        log: Bytes in the server's log of writes.
        script: Time in scripts.
        worker: CPU time of the process that plays.
        clock: Time by the clock.
    """

    received: float
    sent: float
    log: float
    script: float
    worker: float
    clock: float


UNITS = {"received": "B", "sent": "B", "log": "B", "script": "us", "worker": "us", "clock": "us"}
TITLES = {
    "received": "bytes to the server",
    "sent": "bytes from the server",
    "log": "bytes in the log of writes",
    "script": "time in scripts",
    "worker": "CPU of who plays",
    "clock": "by the clock",
}


def measure(options: Options) -> Report:
    """Measure all depths in turns."""
    depths, rounds = (QUICK_DEPTHS, QUICK_ROUNDS) if options.quick else (DEPTHS, ROUNDS)
    report = Report(
        "growth",
        "One round (claim, play, commit) of a run that has had this number of rounds, each of "
        f"which added {ADDITION} bytes to the history; played in one process, one after the other.",
        settings={"addition_bytes": ADDITION, "rounds_measured": rounds},
    )
    found: dict[int, list[Cost]] = {depth: [] for depth in depths}
    with redis_server() as server, closing(Runs(server)) as runs:
        for depth in depths:
            # Before the clock starts: then the scripts are loaded, and the long runs are long.
            runs.cost(depth, rounds)
        for _ in range(options.passes):
            for depth in depths:
                found[depth].append(runs.cost(depth, rounds))
    for figure, title in TITLES.items():
        for depth, passes in found.items():
            base = f"{title}: round {depths[0]:,}"
            report.measures.append(
                Measure(
                    f"{title}: round {depth:,}",
                    UNITS[figure],
                    tuple(getattr(one, figure) for one in passes),
                    base if depth != depths[0] else None,
                )
            )
        last = report.ratio_of(report.measures[-1])
        if last is not None:
            word = "reached" if last <= AIM else "NOT reached"
            report.notes.append(
                f"{title}: round {depths[-1]:,} is {number(last)} x round {depths[0]}; "
                f"aim {AIM:g}: {word}"
            )
    return report


class Runs:
    """Runs of every depth, played in this process."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        settings = Settings(redis_url=server.url, flow_modules=(FLOWS,))
        self._engine, self._client = engine_of(make_app(settings)), Client(settings=settings)
        self._long: dict[int, tuple[str, int]] = {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._engine.close()

    def cost(self, depth: int, rounds: int) -> Cost:
        """Return the mean cost of rounds at this depth.

        In short runs, the ``rounds`` rounds are a few of each of several runs.
        """
        each = min(rounds, depth)
        total = [0.0] * len(UNITS)
        for _ in range(rounds // each):
            run_id, done = self._at(depth, each)
            before, again = _look(self._server), _look(self._server)  # looking costs something too
            self._play(run_id, done, done + each)
            for place, (first, second, after) in enumerate(
                zip(before, again, _look(self._server), strict=True)
            ):
                total[place] += after - second - (second - first)
            if depth >= LONG:
                self._long[depth] = run_id, done + each
        return Cost(*(value / (rounds // each * each) for value in total))

    def _at(self, depth: int, rounds: int) -> tuple[str, int]:
        """Return a run with half of ``rounds`` left.

        These take it to the depth. Its number of rounds so far is returned, too. A long run is used
        again.
        """
        if depth in self._long:
            return self._long[depth]
        done = depth - rounds // 2
        run_id = self._client.submit("adding", "add", {"bytes": ADDITION}).id
        self._play(run_id, 0, done)
        return run_id, done

    def _play(self, run_id: str, start: int, stop: int) -> None:
        for step in range(start, stop):
            word = self._engine.rounds.run(run_id, 0, step).word
            assert word == "continued", f"run {run_id}, step {step}: {word}"


def _look(server: RedisServer) -> tuple[float, ...]:
    info: Any = server.redis.info("everything")
    script = info["cmdstat_evalsha"]["usec"] if "cmdstat_evalsha" in info else 0
    net = info["total_net_input_bytes"], info["total_net_output_bytes"]
    return (
        *net,
        log_size(info),
        script,
        1e6 * time.thread_time(),
        1e6 * time.perf_counter(),
    )
