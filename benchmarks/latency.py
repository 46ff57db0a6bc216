"""Latency without other work: of one hop of a single run, and of the start of a run.

A round reports when it begins, with a clock that all processes share. A hop is the time between two
such moments of one run. The start is the time from the submission of a run to the beginning of its
first round. There are as many worker processes as cores, and they are idle otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise

from benchmarks.measure import Measure, percentile, ratio
from benchmarks.processes import until
from benchmarks.report import Options, Report, matrix
from benchmarks.sides.registry import BASE, sides
from benchmarks.sides.side import Session, Side
from benchmarks.tally import Tally, tally
from benchmarks.work import Work

#: Rounds of the single run, and runs that are submitted one after the other. A slow side plays its
#: share.
HOPS, SUBMITS = 300, 100
QUICK_HOPS, QUICK_SUBMITS = 30, 5
#: The sides that are measured. A single run needs no variants in how many rounds are taken at once.
SIDES = (
    "Perdure, threads", "Perdure, threads, without fetch", "Perdure, threads, one process",
    "Perdure, solo", "Perdure, prefork",
    BASE, "Celery, prefork, early acks", "Celery, solo, late acks", "Celery, threads, late acks",
    "Restate, steps", "Restate, queued", "LangGraph, sync", "DBOS, queued", "DBOS, steps",
)  # fmt: skip
#: Seconds between two looks at the end of a run: the looking must not cost the run.
LOOK = 0.05
OURS, AIM = "Perdure, threads", 0.35
PARTS = {"p50": 0.5, "p99": 0.99}


def measure(options: Options) -> Report:
    """Measure both, for the wanted sides, in turns."""
    report = Report(
        "latency",
        "Milliseconds of one hop of a lone run, and from submit to its first round; "
        "medians of the passes, ratios within passes.",
        settings={
            "hops": QUICK_HOPS if options.quick else HOPS,
            "submits": QUICK_SUBMITS if options.quick else SUBMITS,
        },
    )
    wanted = [side for side in sides() if side.name in SIDES and options.wants(side.name)]
    report.missing |= {side.name: why for side in wanted if (why := side.missing()) is not None}
    found: dict[str, list[dict[str, float]]] = {
        side.name: [] for side in wanted if side.name not in report.missing
    }
    for number in range(options.passes):
        for side in wanted:
            if side.name in report.missing:
                continue
            try:
                found[side.name].append(
                    one_pass(side, report.settings["hops"], report.settings["submits"])
                )
            except Exception as error:
                report.missing[side.name] = f"failed: {type(error).__name__}: {error}"
                del found[side.name]
                continue
            print(
                f"  pass {number + 1}: {side.name}: "
                f"{found[side.name][-1]['hop, p50']:.2f} ms a hop",
                flush=True,
            )
    for what in (f"{kind}, {part}" for kind in ("hop", "submit to first round") for part in PARTS):
        base = f"{what}: {BASE}" if BASE in found else None
        report.measures += [
            Measure(f"{what}: {name}", "ms", tuple(each[what] for each in passes), base)
            for name, passes in found.items()
        ]
    report.shown = matrix(report)
    report.notes += verdicts(report)
    return report


def verdicts(report: Report) -> list[str]:
    """Return a run's hop compared with plain Celery's.

    It is compared with the setting that is the base of all comparisons, and with the fastest one.
    """
    hops = {
        one.name.removeprefix("hop, p50: "): one
        for one in report.measures
        if one.name.startswith("hop, p50: ")
    }
    plain = {name: one for name, one in hops.items() if name.startswith("Celery")}
    if OURS not in hops or not plain:
        return []
    rivals = {min(plain, key=lambda name: plain[name].median), *({BASE} & set(plain))}
    return [
        f"{OURS}: a hop takes {ratio(hops[OURS], plain[name]):.2f} of that of {name}; "
        f"aim at most {AIM:g}"
        for name in sorted(rivals)
    ]


def one_pass(side: Side, hops: int, submits: int) -> dict[str, float]:
    """Return percentiles of one side, in milliseconds."""
    hops, submits = max(10, round(hops * side.share)), max(2, round(submits * side.share))
    work = Work(1, processes=os.cpu_count() or 1)
    with tally(stamping=True) as listening:
        with side.up(work.of(rounds=hops), listening) as session:
            _lone(session, listening)
            listening.began.clear()
            _lone(session, listening)
            times = listening.began[:]
        assert len(times) == hops, (
            f"{side.name}: {len(times)} rounds told when they began; {hops} should have"
        )
        between = [later - earlier for earlier, later in pairwise(times)]
    with tally(stamping=True) as listening, side.up(work.of(rounds=1), listening) as session:
        first = [_first_round(session, listening) for _ in range(submits + 2)][2:]
    kinds = {"hop": between, "submit to first round": first}
    return {
        f"{kind}, {name}": 1000 * percentile(values, part)
        for kind, values in kinds.items()
        for name, part in PARTS.items()
    }


def _lone(session: Session, listening: Tally) -> None:
    """Play one single run until it has ended."""
    ended = session.ended()
    session.start(1)
    until(lambda: session.ended() > ended, "the end of a lone run", 120, LOOK)


def _first_round(session: Session, listening: Tally) -> float:
    """Return the seconds from submission to first round."""
    before = len(listening.began)
    began = time.monotonic()
    session.start(1)
    _until_told(lambda: len(listening.began) > before)
    until(lambda: session.ended() > 0, "the end of a run", every=LOOK)
    return listening.began[before] - began


def _until_told(holds: Callable[[], bool]) -> None:
    until(holds, "the first round of a run", every=0.01)
