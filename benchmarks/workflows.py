"""Workflows: the same order in Perdure, DBOS and plain Celery, and what a step of Perdure costs.

An order has three steps (charge, ship, mail), each of which appends a row to a file. All systems
play it in turns: many orders at once, lone orders, and an order whose worker is killed between the
effect of a step and its record.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import cast

from benchmarks.measure import Measure, percentile
from benchmarks.orders.lines import lines_of_module
from benchmarks.orders.receiver import FATAL, STEPS
from benchmarks.orders.side import OrderSession, OrderSide
from benchmarks.orders.sides import BASE, order_sides
from benchmarks.processes import until
from benchmarks.report import Options, Report, number, table
from benchmarks.sides.registry import servers
from benchmarks.tally import tally
from benchmarks.trial import play
from benchmarks.work import Work
from benchmarks.workflows_cost import StepCosts

#: Orders of the fast sides in a pass, all placed at once.
ORDERS, QUICK_ORDERS = 1_000, 4
#: Orders that are placed alone, one after the other.
LONE, QUICK_LONE = 50, 3
#: Passes in which workers are killed, because some systems need minutes to notice.
KILLS = 3
#: Seconds that a killed system gets to come to an end. kombu looks for messages to deliver again
#: every 100 seconds.
PATIENCE = 300.0
#: Seconds after which Celery's broker delivers the message of a killed worker again. The default of
#: an hour would be waited for in vain.
VISIBILITY = 5.0
REPEATED, ASKED, LOST, ONCE = (
    "repeated without being asked",
    "asked a person",
    "lost",
    "went on without repeating",
)
#: The name by which ``--only`` selects what a step of Perdure costs.
COSTS = "step costs"
RESTATE = (
    "its server cannot be installed with pip; the part rounds measures it if its program is there"
)
RATE, CPU, LATENCY, LINES, EFFECTS = (
    "steps",
    "all CPU",
    "latency of a step, p50",
    "lines of user code",
    "effects of the killed step",
)


def measure(options: Options) -> Report:
    """Measure every system in turns."""
    orders, lone = (QUICK_ORDERS, QUICK_LONE) if options.quick else (ORDERS, LONE)
    cores = os.cpu_count() or 1
    report = Report(
        "workflows",
        f"{orders} orders of {len(STEPS)} steps at once (of slower systems, fewer), and {lone} "
        f"lone orders; {cores} worker processes; {options.passes} passes in turns, medians; ratios "
        f"within passes to: {BASE}.",
        settings={"orders": orders, "processes": cores, "servers": servers()},
    )
    wanted = [side for side in order_sides() if options.wants(side.name)]
    report.missing |= {side.name: why for side in wanted if (why := side.missing()) is not None}
    if options.wants("Restate"):
        report.missing["Restate"] = RESTATE
    there = [side for side in wanted if side.name not in report.missing]
    found: dict[str, dict[str, list[float]]] = {side.name: {} for side in there}
    fates: dict[str, list[str]] = {side.name: [] for side in there}
    costs = StepCosts(options.quick) if options.wants(COSTS) else None
    for done in range(options.passes):
        if costs is not None:
            costs.one_pass()
        for side in there:
            values = found[side.name]
            played = play(side, Work(orders, processes=cores, rounds=len(STEPS)))
            values.setdefault(RATE, []).append(played.rate)
            if played.all_cpu is not None:
                values.setdefault(CPU, []).append(played.all_cpu)
            values.setdefault(LATENCY, []).append(1000 * latency(side, cores, lone))
            print(f"  {side.name}: {played.rate:.0f} steps/s", flush=True)
            if done < KILLS:
                effects, fate = kill(side, cores)
                values.setdefault(EFFECTS, []).append(effects)
                fates[side.name].append(fate)
                print(f"  {side.name}, killed: {fate}", flush=True)
    for name, unit in ((RATE, "steps/s"), (CPU, "us/step"), (LATENCY, "ms"), (EFFECTS, "")):
        base = f"{name}: {BASE}" if BASE in found and name != EFFECTS else None
        report.measures += [
            Measure(f"{name}: {side}", unit, tuple(values[name]), base)
            for side, values in found.items()
            if name in values
        ]
    report.measures += [
        Measure(f"{LINES}: {side.name}", "lines", (lines_of_module(side.module),)) for side in there
    ]
    report.settings["killed"] = fates
    if costs is not None:
        costs.tell(report)
    report.shown = _shown(report, there, fates)
    return report


def latency(side: OrderSide, processes: int, count: int) -> float:
    """Return the seconds from the effect of a step to that of the next, of lone orders (p50)."""
    with (
        tally() as listening,
        side.up(Work(1, processes=processes, rounds=len(STEPS)), listening) as session,
    ):
        session = cast(OrderSession, session)
        for placed in range(1, count + 1):
            session.place()
            until(lambda done=placed: session.ended() >= done, "a lone order", every=0.002)  # type: ignore[misc]
        times: dict[int, list[float]] = {}
        for effect in session.receiver.effects():
            times.setdefault(effect.number, []).append(effect.at)
        # The first orders open connections, and load modules.
        late = [each for number, each in sorted(times.items()) if number > count // 5]
        return percentile([b - a for each in late for a, b in pairwise(each)], 0.5)


def kill(side: OrderSide, processes: int) -> tuple[int, str]:
    """Kill the process of a step after its effect, and before the system knows of it.

    Returns:
        How often the step had its effect, and what the system did.
    """
    side = replace(side, visibility=VISIBILITY)
    with (
        tally() as listening,
        side.up(Work(1, processes=processes, rounds=len(STEPS)), listening) as session,
    ):
        session = cast(OrderSession, session)
        session.start(2)
        until(lambda: session.ended() >= 2, "orders before the kill")
        session.receiver.arm()
        number = session.place()
        until(lambda: not session.receiver.is_armed(), "the kill")
        fate = _await_fate(session, number)
        if fate == ASKED:
            session.tell_done(number)
            until(
                lambda: STEPS[-1] in session.receiver.steps_of(number), "the end after the answer"
            )
        session.settle()
        counts = Counter(session.receiver.steps_of(number))
        counted = ", ".join(f"{counts[step]} x {step}" for step in STEPS)
        return counts[FATAL], f"{fate} ({counted})"


def _await_fate(session: OrderSession, number: int) -> str:
    """Return what the system does with an order whose worker was killed."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        session.processes.restart_ended()
        steps = session.receiver.steps_of(number)
        if STEPS[-1] in steps:
            return REPEATED if steps.count(FATAL) > 1 else ONCE
        if session.is_asking(number):
            return ASKED
        if session.is_lost():
            return LOST
        time.sleep(0.05)
    raise TimeoutError(f"order {number} came to no end within {PATIENCE:g} s after the kill")


def _shown(report: Report, there: list[OrderSide], fates: dict[str, list[str]]) -> str:
    """Return one line for each system."""
    names = {measure.name: measure for measure in report.measures}
    rows = [("", "steps/s", "from", "to", "ratio", "CPU us", "latency ms", "lines", "killed")]
    for side in there:
        rate = names[f"{RATE}: {side.name}"]
        compared = report.ratio_of(rate)
        cells = [names.get(f"{figure}: {side.name}") for figure in (CPU, LATENCY, LINES)]
        rows.append(
            (
                side.name,
                *(number(value) for value in (rate.median, rate.low, rate.high)),
                "" if compared is None else f"{compared:.2f}",
                *("" if cell is None else number(cell.median) for cell in cells),
                "; ".join(
                    f"{n} of {len(fates[side.name])}: {fate}"
                    for fate, n in Counter(fates[side.name]).items()
                ),
            )
        )
    return "\n".join([report.about, *table(rows, right=range(1, 8))])
