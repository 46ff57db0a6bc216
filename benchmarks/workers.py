"""How the rounds a second grow with worker processes: 1, 2 and 4, for any number of cores."""

from __future__ import annotations

import os

from benchmarks.report import Options, Report, matrix
from benchmarks.rounds import QUICK_RUNS, measures, one_pass
from benchmarks.sides.registry import BASE, sides
from benchmarks.trial import Played
from benchmarks.work import SIZES, Work

COUNTS = (1, 2, 4)
RUNS = 80
#: The sides that accept a number of processes.
SIDES = (
    "Perdure, threads", "Perdure, threads, without fetch", "Perdure, solo", "Perdure, prefork",
    BASE, "Celery, solo, late acks", "Celery, threads, late acks",
)  # fmt: skip


def measure(options: Options) -> Report:
    """Measure each side with each number of processes, in turns."""
    runs = QUICK_RUNS if options.quick else RUNS
    report = Report(
        "workers",
        f"Rounds a second with {', '.join(map(str, COUNTS))} worker processes "
        f"on {os.cpu_count()} cores; "
        f"medians of {options.passes} passes; "
        f"in brackets the ratio to: {BASE}.",
        settings={"runs": runs, "size": SIZES[0]},
    )
    wanted = [side for side in sides() if side.name in SIDES and options.wants(side.name)]
    report.missing |= {side.name: why for side in wanted if (why := side.missing()) is not None}
    found: dict[int, dict[str, list[Played]]] = {count: {} for count in COUNTS}
    for _ in range(options.passes):
        for count in COUNTS:
            one_pass(wanted, Work(runs, processes=count), found[count], report)
    for count, of_sides in found.items():
        whole = {name: passes for name, passes in of_sides.items() if name not in report.missing}
        report.measures += measures(
            whole, f"{count} process{'es' if count > 1 else ''}", ("rounds", "worker CPU")
        )
    report.shown = matrix(report)
    return report
