"""How the cost of a round grows with the rounds of its run: the same addition to the history, in a run of 10 or of 10,000 rounds."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Measure
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report, number
from worker.app import engine_of, make_app
from worker.client import Client
from worker.settings import Settings

#: Rounds that a run has behind it; the first is what the others are compared with.
DEPTHS, QUICK_DEPTHS = (10, 100, 1_000, 10_000), (10, 100)
#: Rounds that are measured at each depth, in each pass; in a short run some of many runs.
ROUNDS, QUICK_ROUNDS = 200, 20
#: From this depth on a run is used again in the next pass.
LONG = 1_000
#: Bytes of each addition.
ADDITION = 500
#: The last depth may cost so many times the first.
AIM = 1.2
FLOWS = "benchmarks.loads"


@dataclass(frozen=True)
class Cost:
    """Of one round: bytes to and from the server, bytes in its log of writes, its time in scripts; CPU time of who plays, and the clock's.

    Times in microseconds.
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
    """All depths in turns."""
    depths, rounds = (QUICK_DEPTHS, QUICK_ROUNDS) if options.quick else (DEPTHS, ROUNDS)
    report = Report(
        "growth",
        f"One round (claim, play, commit) of a run that has so many rounds behind it, each of which added {ADDITION} bytes to the history; "
        "played in one process, one after the other.",
        settings={"addition_bytes": ADDITION, "rounds_measured": rounds},
    )
    found: dict[int, list[Cost]] = {depth: [] for depth in depths}
    with redis_server() as server, closing(Runs(server)) as runs:
        for depth in depths:
            runs.cost(depth, rounds)  # before the clock starts: the scripts are known then, and the long runs are long
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
            report.notes.append(f"{title}: round {depths[-1]:,} is {number(last)} x round {depths[0]}; aim {AIM:g}: {word}")
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
        """The mean of so many rounds at this depth; of short runs a few rounds of each of several."""
        each = min(rounds, depth)
        total = [0.0] * len(UNITS)
        for _ in range(rounds // each):
            run_id, done = self._at(depth, each)
            before, again = _look(self._server), _look(self._server)  # looking costs something too
            self._play(run_id, done, done + each)
            for place, (first, second, after) in enumerate(zip(before, again, _look(self._server), strict=True)):
                total[place] += after - second - (second - first)
            if depth >= LONG:
                self._long[depth] = run_id, done + each
        return Cost(*(value / (rounds // each * each) for value in total))

    def _at(self, depth: int, rounds: int) -> tuple[str, int]:
        """A run that has half of ``rounds`` to go to the depth, and the rounds it has behind it. A long one is used again."""
        if depth in self._long:
            return self._long[depth]
        done = depth - rounds // 2
        run_id = self._client.submit("adding", "add", {"bytes": ADDITION}).id
        self._play(run_id, 0, done)
        return run_id, done

    def _play(self, run_id: str, start: int, stop: int) -> None:
        for step in range(start, stop):
            word = self._engine.rounds.play(run_id, 0, step)
            assert word == "continued", f"run {run_id}, step {step}: {word}"


def _look(server: RedisServer) -> tuple[float, ...]:
    info: Any = server.redis.info("everything")
    script = info["cmdstat_evalsha"]["usec"] if "cmdstat_evalsha" in info else 0
    net = info["total_net_input_bytes"], info["total_net_output_bytes"]
    return (*net, info["aof_current_size"], script, 1e6 * time.thread_time(), 1e6 * time.perf_counter())
