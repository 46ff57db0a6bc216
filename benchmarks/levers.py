"""The value of each lever of the fast path.

The same work is done with all levers, and with all but one, in turns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from benchmarks.measure import Measure
from benchmarks.processes import process, python, until
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report, number, table
from benchmarks.sides.perdure import (
    PerdureSession,
    alive,
    client_of,
    worker_command,
    worker_environment,
)
from benchmarks.sides.side import Session, Side
from benchmarks.tally import Tally
from benchmarks.trial import Played, play
from benchmarks.without import LEVERS
from benchmarks.work import ROUNDS, SIZES, Work

RUNS, QUICK_RUNS = 120, 4
#: The levers that a pool uses at all.
POOLS = {
    "threads": list(LEVERS),
    "solo": ["prefetch", "affinity", "template", "shape", "fast_continue.lua"],
    "prefork": ["template", "shape", "fast_continue.lua"],
}
ALL = "all levers"


@dataclass(frozen=True)
class WithoutLever(Side):
    """Perdure with one lever switched off. An empty name switches none off."""

    pool: str = "threads"
    lever: str = ""

    def missing(self) -> None:
        """Return None: every lever is of this version."""

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            server = stack.enter_context(redis_server("everysec"))
            client = stack.enter_context(closing(client_of(server)))
            options = ["--pool", self.pool]
            count = 1 if self.pool == "prefork" else work.processes
            if self.pool == "prefork":
                options += ["--concurrency", str(work.processes)]
            command = (
                python("-m", "benchmarks.without", self.lever, "worker", *options)
                if self.lever
                else worker_command(*options)
            )
            workers = [
                stack.enter_context(
                    process(command, **worker_environment(server), **tally.environment)
                ).pid
                for _ in range(count)
            ]
            until(lambda: alive(client) >= count, f"{count} workers")
            yield PerdureSession(
                workers, [server.pid], server, every=0.005, client=client, work=work
            )


def measure(options: Options) -> Report:
    """Measure every pool with all levers, and without each."""
    cores = os.cpu_count() or 1
    runs = QUICK_RUNS if options.quick else RUNS
    sides = [
        WithoutLever(f"{pool}: {f'without {lever}' if lever else ALL}", pool=pool, lever=lever)
        for pool, levers in POOLS.items()
        for lever in ["", *levers]
    ]
    wanted = [side for side in sides if options.wants(side.name) or not side.lever]
    report = Report(
        "levers",
        f"{runs} runs of {ROUNDS} empty rounds, {cores} worker processes; "
        f"{options.passes} passes in turns, medians; "
        "ratios within passes to the same pool with all levers.",
        settings={"runs": runs, "rounds": ROUNDS, "processes": cores},
    )
    work = Work(runs, SIZES[0], cores)
    found: dict[str, list[Played]] = {side.name: [] for side in wanted}
    for done in range(options.passes):
        for side in wanted if done % 2 == 0 else reversed(wanted):
            found[side.name].append(play(side, work))
            print(
                f"  pass {done + 1}: {side.name}: {found[side.name][-1].rate:.0f} rounds/s",
                flush=True,
            )
    figures = {
        "rounds": ("rounds/s", lambda played: played.rate),
        "all CPU": ("us/round", lambda played: played.all_cpu or 0.0),
    }
    for figure, (unit, of) in figures.items():
        report.measures += [
            Measure(
                f"{figure}: {side.name}",
                unit,
                tuple(of(played) for played in found[side.name]),
                f"{figure}: {side.pool}: {ALL}",
            )
            for side in wanted
        ]
    rows: list[tuple[str, ...]] = [("side", "rounds/s", "ratio", "CPU us/round", "ratio")]
    for side in wanted:
        row = [side.name]
        for figure in figures:
            measured = report.find(f"{figure}: {side.name}")
            row += [number(measured.median), f"{report.ratio_of(measured) or 0.0:.3f}"]
        rows.append(tuple(row))
    report.shown = "\n".join([report.about, *table(rows, right=(1, 2, 3, 4))])
    return report
