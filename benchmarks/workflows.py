"""Workflows: an order in Perdure, DBOS, Restate and Celery, and the cost of a step in Perdure.

An order has three steps (charge, ship, mail), each of which appends a row to a file. All systems
play it in turns: many orders at once, lone orders, and an order whose worker is killed between the
effect of a step and its record.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, cast

from benchmarks.measure import Measure, percentile
from benchmarks.orders.lines import lines_of_module
from benchmarks.orders.receiver import FATAL, STEPS
from benchmarks.orders.side import OrderSession, OrderSide
from benchmarks.orders.sides import BASE, DbosOrders, dbos_database, order_sides
from benchmarks.plots import bars
from benchmarks.processes import cpu_seconds, until
from benchmarks.report import Options, Report, number, table
from benchmarks.sides.registry import servers
from benchmarks.tally import tally
from benchmarks.work import Work
from benchmarks.workflows_cost import StepCosts

#: Orders of the fast sides in a pass, all placed at once.
ORDERS, QUICK_ORDERS = 1_000, 4
#: Orders before the clock starts, for each process.
WARM_UP = 20
#: Orders that are placed alone, one after the other.
LONE, QUICK_LONE = 50, 3
#: Passes with killed workers. They are few, because some systems need minutes to notice.
KILLS = 3
#: Seconds that a killed system gets to end. kombu looks for messages to deliver again every 100
#: seconds.
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
NOTES = (
    (
        "Redis syncs its log to the disk every second, its own default, except if a system is "
        "called synced. PostgreSQL and Restate sync at each commit."
    ),
    (
        f"killed: the step {FATAL} kills its own process after its effect, before the system can "
        "record it. A process that ended is started again. The broker of Celery delivers messages "
        f"that were not acknowledged again after {VISIBILITY:g} s, instead of an hour."
    ),
)
#: The name by which ``--only`` selects the costs of a step of Perdure.
COSTS = "step costs"
RATE, PLACED, CPU, LATENCY, LINES, EFFECTS = (
    "steps",
    "orders placed",
    "all CPU",
    "latency of a step, p50",
    "lines of user code",
    "effects of the killed step",
)


@dataclass
class PlayedOrders:
    """The figures of one system, pass by pass.

    Attributes:
        values: The values of each figure.
        fates: The outcome after each kill.
    """

    values: dict[str, list[float]] = field(default_factory=dict)
    fates: list[str] = field(default_factory=list)

    def add(self, figure: str, value: float | None) -> None:
        """Add a pass's value, if this system reports it."""
        if value is not None:
            self.values.setdefault(figure, []).append(value)


def measure(options: Options) -> Report:
    """Measure every system in turns, and the step costs."""
    orders = QUICK_ORDERS if options.quick else ORDERS
    lone = QUICK_LONE if options.quick else LONE
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
    costs = StepCosts(options.quick) if options.wants(COSTS) else None
    found: dict[str, PlayedOrders] = {}
    for done in range(1, options.passes + 1):
        if costs is not None:
            costs.one_pass()
        for side in wanted:
            if side.name not in report.missing:
                played = found.setdefault(side.name, PlayedOrders())
                _one_pass(side, played, (orders, lone, cores), done <= KILLS, report)
        there = [side for side in wanted if side.name not in report.missing]
        _tell(report, there, found, costs)
        report.store(replace(options, passes=done))
    return report


def _one_pass(
    side: OrderSide,
    found: PlayedOrders,
    size: tuple[int, int, int],
    kills: bool,
    report: Report,
) -> None:
    """Add one system's figures. If it fails, it is left out from then on, and reported."""
    orders, lone, processes = size
    began = time.monotonic()
    try:
        placed, rate, cpu = play_many(side, processes, max(1, round(orders * side.share)))
        found.add(PLACED, placed)
        found.add(RATE, rate)
        found.add(CPU, cpu)
        found.add(LATENCY, 1000 * latency(side, processes, lone))
        if kills:
            effects, fate = kill(side, processes)
            found.add(EFFECTS, effects)
            found.fates.append(fate)
    except Exception as error:
        report.missing[side.name] = f"failed: {type(error).__name__}: {error}"
        print(f"  {side.name}: {report.missing[side.name]}", flush=True)
        return
    said = f"; killed: {found.fates[-1]}" if kills else ""
    took = time.monotonic() - began
    print(f"  {side.name}: {rate:.0f} steps/s{said} ({took:.0f} s)", flush=True)


def _tell(
    report: Report,
    there: list[OrderSide],
    found: dict[str, PlayedOrders],
    costs: StepCosts | None,
) -> None:
    """Put the results so far into the report."""
    report.measures, report.notes = [], list(NOTES)
    for name, unit in (
        (RATE, "steps/s"),
        (PLACED, "orders/s"),
        (CPU, "us/step"),
        (LATENCY, "ms"),
        (EFFECTS, "effects"),
    ):
        base = f"{name}: {BASE}" if name != EFFECTS else None
        report.measures += [
            Measure(f"{name}: {side.name}", unit, tuple(values), base)
            for side in there
            if (values := found[side.name].values.get(name))
        ]
    report.measures += [
        Measure(f"{LINES}: {side.name}", "lines", (lines_of_module(side.module),)) for side in there
    ]
    report.settings["killed"] = {side.name: found[side.name].fates for side in there}
    if any(isinstance(side, DbosOrders) for side in there):
        report.settings["database of DBOS"] = database = dbos_database()
        report.notes.append(f"DBOS's database is {database}.")
    if costs is not None:
        costs.tell(report)
    report.shown = _shown(report, there, report.settings["killed"])
    report.draw = partial(_chart, report)


def _chart(report: Report, figure: Any) -> None:
    """Draw the steps a second."""
    rates = {
        measure.name.removeprefix(f"{RATE}: "): measure
        for measure in report.measures
        if measure.name.startswith(f"{RATE}: ")
    }
    bars(figure.subplots(), rates, "steps/s")


def play_many(side: OrderSide, processes: int, count: int) -> tuple[float, float, float | None]:
    """Submit many orders, then let the workers play them.

    The workers stand still meanwhile. So the speed of the one client that places the orders does
    not limit them.

    Returns:
        Orders placed a second, steps a second, and microseconds of CPU time that a step takes the
        workers and the server. The last is None if this machine does not report it.
    """
    warm = min(count, WARM_UP * processes)
    with (
        tally() as listening,
        side.up(Work(1, processes=processes, rounds=len(STEPS)), listening) as session,
    ):
        session = cast(OrderSession, session)
        session.start(warm)
        until(lambda: session.ended() >= warm, "warm-up")
        session.processes.pause()
        began = time.perf_counter()
        session.start(count)
        placing = time.perf_counter() - began
        pids = [*session.workers, *session.servers]
        before = cpu_seconds(pids)
        began = time.perf_counter()
        session.processes.resume()
        until(lambda: session.ended() >= warm + count, f"{count} orders of {side.name}", PATIENCE)
        playing = time.perf_counter() - began
        after = cpu_seconds(pids)
        steps = count * len(STEPS)
        really, expected = session.rounds(), steps + warm * len(STEPS)
        assert really == expected, f"{side.name} played {really} steps; expected {expected}"
    cpu = None if before is None or after is None else 1e6 * (after - before) / steps
    return count / placing, steps / playing, cpu


def latency(side: OrderSide, processes: int, count: int) -> float:
    """Return the seconds between two effects of lone orders.

    It is the median (p50) from one step to the next.
    """
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
    """Kill a step's process between its effect and record.

    Returns:
        How often the step had its effect, and the reaction of the system.
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
    """Return the fate of an order after the kill."""
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


HEADER = (
    "system", "steps/s", "from", "to", "ratio", "placed/s", "CPU us", "latency ms", "lines",
    "killed",
)  # fmt: skip


def _shown(report: Report, there: list[OrderSide], fates: dict[str, list[str]]) -> str:
    """Return one line for each system."""
    names = {measure.name: measure for measure in report.measures}
    rows = [
        (
            "",
            "steps/s",
            "from",
            "to",
            "ratio",
            "placed/s",
            "CPU us",
            "latency ms",
            "lines",
            "killed",
        )
    ]
    for side in there:
        rate = names[f"{RATE}: {side.name}"]
        compared = report.ratio_of(rate)
        cells = [names.get(f"{figure}: {side.name}") for figure in (PLACED, CPU, LATENCY, LINES)]
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
    return "\n".join([report.about, *table(rows, right=range(1, 9))])
