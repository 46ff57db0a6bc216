"""A workflow step's cost, compared with a declared round. It belongs to the part ``workflows``.

- A step over a round: the time from one step of a lone run to the next, where the run stays with
  its worker, minus that of a declared flow whose rounds append the same turns. A step that is not
  idempotent is compared with a command of a declared flow: both record an intent first.
- A replay: a round with a journal of 300 entries minus a round with 10. Two runtimes in this
  process take turns with the rounds, so that no round finds its run's data in memory.
- Growth: the bytes that round 1,000 sends to the server, and adds to its log, beside round 10.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from benchmarks.measure import Measure, percentile
from benchmarks.processes import process, until
from benchmarks.redis_server import RedisServer, log_size, redis_server
from benchmarks.report import Report, number
from benchmarks.sides.perdure import alive, worker_command
from benchmarks.tally import Tally, tally
from perdure.worker.app import engine_of, make_app
from perdure.worker.client import Client
from perdure.worker.settings import Settings

FLOWS = "benchmarks.workflows_flows"
#: Of each kind: its flow, and whether its steps are idempotent.
KINDS = {
    "idempotent steps": ("empty-steps", True),
    "idempotent steps, coroutine": ("async-empty-steps", True),
    "steps": ("empty-steps", False),
    "steps, coroutine": ("async-empty-steps", False),
}
#: The base of comparison, by whether the steps are idempotent.
DECLARED = {True: "round of a declared flow", False: "round of a declared flow with an intent"}
#: Kinds with a measured journal. An intent has nothing to do with the journal.
REPLAYED = ("idempotent steps", "idempotent steps, coroutine")
#: Rounds of a lone run, and such runs in a pass.
ROUNDS, RUNS, QUICK_RUNS = 30, 30, 2
#: Rounds at which a run that does not stay is measured, and how many are measured around each.
DEPTHS, QUICK_DEPTHS, AROUND = (10, 300, 1_000), (10, 30, 60), 10
#: Greatest values: milliseconds of a step over a round, and of a replay; ratio of the bytes.
STEP_AIM, REPLAY_AIM, GROWTH_AIM = 1.0, 5.0, 1.1
#: Looks at the server's counts that find out what a look itself costs.
LOOKS = 5
CLOCK, PLAYER = "by the clock", "CPU of who plays"
BYTES = ("bytes to the server", "bytes in the log of writes")


@dataclass
class _Figure:
    unit: str
    base: str | None
    aim: float | None
    values: list[float] = field(default_factory=list)


class StepCosts:
    """The figures, pass by pass.

    Args:
        quick: Do little, to show that it works.
    """

    def __init__(self, quick: bool) -> None:
        self._runs = QUICK_RUNS if quick else RUNS
        self._depths = QUICK_DEPTHS if quick else DEPTHS
        self._figures: dict[str, _Figure] = {}

    def one_pass(self) -> None:
        """Measure everything once."""
        self._measure_staying()
        with redis_server() as server, closing(LocalRuns(server)) as runs:
            for kind in REPLAYED:
                self._measure_depths(kind, runs)

    def tell(self, report: Report) -> None:
        """Add the measures to the report, with their aims.

        Each note says whether the aim is reached.
        """
        for name, figure in self._figures.items():
            measure = Measure(name, figure.unit, tuple(figure.values), figure.base)
            report.measures.append(measure)
            compared = report.ratio_of(measure)
            value = f"{number(measure.median)} {figure.unit}"
            if compared is not None:
                value += f", {compared:.2f} x {figure.base}"
            verdict = ""
            if figure.aim is not None:
                reached = (measure.median if compared is None else compared) <= figure.aim
                verdict = f"; aim at most {figure.aim:g}: {'reached' if reached else 'NOT reached'}"
            report.notes.append(f"{name}: {value}{verdict}")

    def _add(
        self,
        name: str,
        unit: str,
        value: float,
        base: str | None = None,
        aim: float | None = None,
    ) -> None:
        self._figures.setdefault(name, _Figure(unit, base, aim)).values.append(value)

    def _measure_staying(self) -> None:
        """Measure the gaps of each kind's lone runs, in turns."""
        kinds = {name: ("declared", idempotent) for idempotent, name in DECLARED.items()} | KINDS
        gaps: dict[str, list[float]] = {name: [] for name in kinds}
        with tally(stamping=True) as listening, redis_server("everysec") as server:
            settings = Settings(redis_url=server.url, flow_modules=(FLOWS,))
            with closing(Client(settings=settings)) as client, _worker(server, client, listening):
                for done in range(-1, self._runs):
                    for name, (flow, idempotent) in kinds.items():
                        inputs = {"rounds": ROUNDS, "idempotent": idempotent}
                        times = _gaps(client, listening, flow, inputs)
                        if done >= 0:  # the first ones load modules
                            gaps[name] += times
        each = {name: 1000 * percentile(times, 0.5) for name, times in gaps.items()}
        for name in DECLARED.values():
            self._add(f"{name} that stays, p50", "ms", each[name])
        for name, (_, idempotent) in KINDS.items():
            over = each[name] - each[DECLARED[idempotent]]
            self._add(f"over a {DECLARED[idempotent]}: {name}", "ms", over, aim=STEP_AIM)

    def _measure_depths(self, kind: str, runs: LocalRuns) -> None:
        """Measure rounds at each depth, without affinity. They belong to a run that never stays."""
        flow, idempotent = KINDS[kind]
        inputs = {"rounds": self._depths[-1] + AROUND, "idempotent": idempotent}
        run_id, done, costs = runs.submit(flow, inputs), 0, []
        for depth in self._depths:
            runs.play(run_id, done, depth - AROUND // 2)
            costs.append(runs.cost(run_id, depth - AROUND // 2, AROUND))
            done = depth + AROUND // 2
            self._add(f"round {depth:,} that does not stay: {kind}", "ms", costs[-1][CLOCK])
        for what in (CLOCK, PLAYER):
            replay = costs[1][what] - costs[0][what]
            aim = REPLAY_AIM if what == CLOCK else None
            self._add(f"replay of {self._depths[1]}, {what}: {kind}", "ms", replay, aim=aim)
        for what in BYTES:
            base = f"{what}, round {self._depths[0]}: {kind}"
            last = f"{what}, round {self._depths[-1]:,}: {kind}"
            self._add(base, "B", costs[0][what])
            self._add(last, "B", costs[-1][what], base, GROWTH_AIM)


class LocalRuns:
    """Runs that two runtimes play in this process. They stand for two worker processes."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        settings = Settings(redis_url=server.url, flow_modules=(FLOWS,))
        self._engines = [engine_of(make_app(settings)) for _ in range(2)]
        self._client = Client(settings=settings)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        for engine in self._engines:
            engine.close()

    def submit(self, flow: str, inputs: dict[str, Any]) -> str:
        """Submit a run, and return its id."""
        return self._client.submit(flow, "go", inputs).id

    def play(self, run_id: str, start: int, stop: int) -> None:
        """Play the rounds from ``start``, without ``stop``. The first runtime plays all of them."""
        for step in range(start, stop):
            self._play(0, run_id, step)

    def cost(self, run_id: str, start: int, rounds: int) -> dict[str, float]:
        """Return the median times and bytes of rounds.

        The runtimes play them in turns. Every few seconds a process sends its metrics with a round.
        The median leaves that round out.
        """
        # A late write may fall between two looks, so the least difference is that of a look.
        looks = [self._look() for _ in range(LOOKS)]
        looking = {name: min(b[name] - a[name] for a, b in pairwise(looks)) for name in BYTES}
        seen = looks[-1]
        times, cpu = [], []
        written: dict[str, list[float]] = {name: [] for name in BYTES}
        for place, step in enumerate(range(start, start + rounds), 1):
            began, cpu_began = time.perf_counter(), time.thread_time()
            self._play(place % 2, run_id, step)  # the second one first: the last was the first's
            times.append(1000 * (time.perf_counter() - began))
            cpu.append(1000 * (time.thread_time() - cpu_began))
            before, seen = seen, self._look()
            for name in BYTES:
                written[name].append(seen[name] - before[name] - looking[name])
        each = {name: percentile(values, 0.5) for name, values in written.items()}
        return {**each, CLOCK: percentile(times, 0.5), PLAYER: percentile(cpu, 0.5)}

    def _play(self, engine: int, run_id: str, step: int) -> None:
        word = self._engines[engine].rounds.run(run_id, 0, step).word
        assert word == "continued", f"run {run_id}, step {step}: {word}"

    def _look(self) -> dict[str, float]:
        told: Any = self._server.redis.info("everything")
        return dict(zip(BYTES, (told["total_net_input_bytes"], log_size(told)), strict=True))


@contextmanager
def _worker(server: RedisServer, client: Client, listening: Tally) -> Iterator[None]:
    """Start one worker process. Wait until it is alive."""
    environment = {
        "PERDURE_REDIS_URL": server.url,
        "PERDURE_FLOW_MODULES": FLOWS,
        **listening.environment,
    }
    with process(worker_command("--pool", "threads"), **environment):
        until(lambda: alive(client) == 1, "the worker")
        yield


def _gaps(client: Client, listening: Tally, flow: str, inputs: dict[str, Any]) -> Sequence[float]:
    """Return the seconds between a lone run's rounds. The first round is left out."""
    before = len(listening.began)
    client.wait(client.submit(flow, "go", inputs).id, 60)
    until(lambda: len(listening.began) >= before + ROUNDS, "the last stamp")
    return [later - earlier for earlier, later in pairwise(listening.began[before + 1 :])]
