"""Rounds a second: all sides do the same work in turns (A B C A B C ...).

Turns are needed because the speed of these machines drifts by a factor of three.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from benchmarks.measure import Measure, best, ratio
from benchmarks.plots import bars
from benchmarks.report import Options, Report, number, table
from benchmarks.sides.registry import BASE, servers, sides
from benchmarks.sides.side import Side
from benchmarks.trial import Played, play
from benchmarks.work import ROUNDS, SIZES, Work

#: Runs of the fast sides in a pass, all started at once: seconds of work, and a queue that is empty
#: only at the end. With 100 runs the fastest side needed 0.8 s, and its end, when a process has no
#: work left, was too large a part of that.
RUNS = 200
QUICK_RUNS = 4

#: The sides that also play with more state. Between variants of one system the size makes too
#: little difference.
MAIN = {
    "Perdure, threads", "Perdure, threads, without fetch", "Perdure, threads, synced",
    "Perdure, prefork",
    BASE, "Celery, prefork, early acks", "Celery, solo, late acks", "Celery, threads, late acks",
    "Restate, steps", "Restate, queued", "LangGraph, sync", "DBOS, queued", "DBOS, steps",
}  # fmt: skip

#: The figures of each side: the unit, and the value of a pass.
FIGURES: dict[str, tuple[str, Callable[[Played], float | None]]] = {
    "rounds": ("rounds/s", lambda played: played.rate),
    "all CPU": ("us/round", lambda played: played.all_cpu),
    "worker CPU": ("us/round", lambda played: played.worker_cpu),
    "server CPU": ("us/round", lambda played: played.server_cpu),
    "scripts": ("scripts/round", lambda played: played.redis.get("scripts")),
    "script time": ("us/round", lambda played: played.redis.get("script us")),
    "bytes in": ("bytes/round", lambda played: played.redis.get("bytes in")),
    "bytes out": ("bytes/round", lambda played: played.redis.get("bytes out")),
}


def measure(options: Options) -> Report:
    """Measure every available side, with each size of state."""
    cores = os.cpu_count() or 1
    runs = QUICK_RUNS if options.quick else RUNS
    report = Report(
        "rounds",
        f"{runs} runs of {ROUNDS} empty rounds, {cores} worker processes that play them unless a "
        "side's name says otherwise; "
        f"{options.passes} passes in turns, medians; ratios within passes to: {BASE}.",
        settings={
            "runs": runs,
            "rounds": ROUNDS,
            "sizes": SIZES,
            "processes": cores,
            "servers": servers(),
        },
    )
    works = [Work(runs, size, cores) for size in SIZES]
    there = present(options, report)
    found: dict[int, dict[str, list[Played]]] = {work.size: {} for work in works}
    for done in range(1, options.passes + 1):
        for work in works:
            one_pass(
                [side for side in there if work.size == SIZES[0] or side.name in MAIN],
                work,
                found[work.size],
                report,
            )
        tell(report, found)
        report.store(replace(options, passes=done))  # an hour's work is not lost with its last pass
    report.draw = partial(chart, report)
    return report


def tell(report: Report, found: dict[int, dict[str, list[Played]]]) -> None:
    """Put the results so far into the report."""
    report.measures, shown = [], [report.about]
    for size, of_sides in found.items():
        whole = {name: passes for name, passes in of_sides.items() if name not in report.missing}
        report.measures += measures(whole, f"{size} bytes")
        shown += [f"\nstate of {size} bytes:", *rows(report, whole, f"{size} bytes")]
    report.notes = [DISKS, *verdicts(report, f"{SIZES[0]} bytes")]
    report.shown = "\n".join(shown)


def present(options: Options, report: Report) -> list[Side]:
    """Return the sides that are wanted and available. The report says why others are not."""
    wanted = [side for side in sides() if options.wants(side.name)]
    report.missing |= {side.name: why for side in wanted if (why := side.missing()) is not None}
    return [side for side in wanted if side.name not in report.missing]


def one_pass(
    there: Sequence[Side], work: Work, found: dict[str, list[Played]], report: Report
) -> None:
    """Add each side's figures. A side that fails is left out from then on, and reported."""
    for side in there:
        if side.name in report.missing:
            continue
        began, passes = time.monotonic(), found.setdefault(side.name, [])
        try:
            played = play(side, work, watch=not passes)
        except Exception as error:
            report.missing[side.name] = f"failed: {type(error).__name__}: {error}"
            print(f"  {side.name}: {report.missing[side.name]}", flush=True)
            continue
        passes.append(played)
        took = time.monotonic() - began
        print(
            f"  pass {len(passes)}, {work.size} bytes: {side.name}: "
            f"{played.rate:.0f} rounds/s ({took:.0f} s)",
            flush=True,
        )


def measures(
    found: dict[str, list[Played]], size: str, figures: Iterable[str] = FIGURES
) -> list[Measure]:
    """Return every figure of every side as a measure.

    It is compared with the base if there is one.
    """
    made = []
    for figure in figures:
        unit, of = FIGURES[figure]
        for name, passes in found.items():
            values = [value for played in passes if (value := of(played)) is not None]
            if len(values) == len(passes) and values:
                base = f"{figure}, {size}: {BASE}" if BASE in found else None
                made.append(Measure(f"{figure}, {size}: {name}", unit, tuple(values), base))
    return made


HEADER = (
    "side", "rounds/s", "from", "to", "ratio", "CPU us", "ratio", "worker us", "server us",
    "script us", "in B", "out B",
    "commands a round",
)  # fmt: skip


def rows(report: Report, found: dict[str, list[Played]], size: str) -> list[str]:
    """Return one line for each side."""
    made: list[tuple[str, ...]] = [HEADER]
    columns = ("worker CPU", "server CPU", "script time", "bytes in", "bytes out")
    names = {measure.name: measure for measure in report.measures}
    for name, passes in found.items():
        rate = names[f"rounds, {size}: {name}"]
        compared, cpu = report.ratio_of(rate), names.get(f"all CPU, {size}: {name}")
        cells = [names.get(f"{figure}, {size}: {name}") for figure in columns]
        commands = ", ".join(
            f"{count:.1f} {command}" for command, count in passes[0].commands.items()
        )
        made.append(
            (
                name,
                *(number(value) for value in (rate.median, rate.low, rate.high)),
                _told(compared),
                "" if cpu is None else number(cpu.median),
                "" if cpu is None else _told(report.ratio_of(cpu)),
                *("" if cell is None else number(cell.median) for cell in cells),
                f"{sum(passes[0].commands.values()):.1f}: {commands}" if commands else "",
            )
        )
    return table(made, right=range(1, 12))


def _told(compared: float | None) -> str:
    return "" if compared is None else f"{compared:.2f}"


#: Facts that readers of the figures must know.
DISKS = (
    "Redis syncs its log to the disk every second, its own default, except if a side is called "
    "synced. "
    "PostgreSQL and Restate's server sync at each commit, or at each batch of commits."
)
#: Goals: Perdure's side, the other side (a pattern, which stands for the best match), and the least
#: ratio.
AIMS = (
    ("Perdure, threads", BASE, 5.0),
    ("Perdure, threads", "Celery, * late acks*", 2.5),
    ("Perdure, threads", "Restate*", 2.0),
    ("Perdure, threads", "LangGraph*", 4.0),
    ("Perdure, threads", "DBOS, queued*", 10.0),
    ("Perdure, threads, synced", "Restate*", 2.0),
    ("Perdure, threads, synced", "LangGraph*", 4.0),
    ("Perdure, threads, synced", "DBOS, queued*", 10.0),
    ("Perdure, threads, without fetch", BASE, 3.0),
    ("Perdure, threads, without fetch", "Celery, * late acks*", 1.8),
)


def verdicts(report: Report, size: str) -> list[str]:
    """Return each goal with its result."""
    rates, cpus = rates_of(report, size), rates_of(report, size, "all CPU")
    said = []
    for ours, theirs, least in AIMS:
        rivals = {one.name: name for name, one in rates.items() if fnmatchcase(name, theirs)}
        if ours in rates and rivals:
            rival = best(one for one in rates.values() if one.name in rivals)
            reached = ratio(rates[ours], rival)
            word = "reached" if reached >= least else "NOT reached"
            said.append(
                f"{ours}: {reached:.2f} x {rivals[rival.name]}; "
                f"aim {least:g}: {word}{_cpu(cpus, ours, rivals[rival.name])}"
            )
    return said


def _cpu(cpus: dict[str, Measure], ours: str, theirs: str) -> str:
    """Return the other side's CPU time, compared with ours."""
    return (
        f"; {ratio(cpus[theirs], cpus[ours]):.2f} x by CPU time"
        if {ours, theirs} <= set(cpus)
        else ""
    )


def rates_of(report: Report, size: str, figure: str = "rounds") -> dict[str, Measure]:
    """Return rounds a second, or another figure, by side."""
    beginning = f"{figure}, {size}: "
    return {
        one.name.removeprefix(beginning): one
        for one in report.measures
        if one.name.startswith(beginning)
    }


def chart(report: Report, figure: Any) -> None:
    """Draw rounds a second, one plot for each size."""
    figure.set_size_inches(14, 8)
    plots = figure.subplots(1, len(SIZES), sharey=True)
    for axis, size in zip(plots, SIZES, strict=True):
        bars(axis, rates_of(report, f"{size} bytes"), f"rounds/s, {size} bytes of state")
