"""Trials of lists that are read in parts while runs start and end: each entry once, none missed."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from perdure import Client, RoundContext, RunStatus, Settings, Step, Steps, workflow
from perdure.worker.store import Claim, Store
from tests.support.round_driver import driving
from tests.support.runs import commit_end, new_run, try_claim
from tests.trials.ground import Ground, place
from tests.trials.trial import Figures, show_progress

OWNER = "ann"
PAGE = 500
#: Processes of traffic, and the starts and ends of runs between two pages. A page takes about 30 ms,
#: so they are those of 1,000 a second, also on a machine that cannot start as many.
TRAFFIC, MOVES = 3, 30
#: Runs that a process starts before it ends them.
BATCH = 20
#: Seconds in which these starts and ends have to happen.
PATIENCE = 30.0


@workflow("trial_parked")
def parked(steps: Steps) -> str:
    """Wait for a signal for ever."""
    return str(steps.wait_for("go")["signal"])


@workflow("trial_asks")
def asks(steps: Steps) -> str:
    """Ask a person."""
    return str(steps.ask("May I?"))


def _traffic(settings: Settings, number: int, ended: Any, count: Any) -> None:
    """Start and end runs, in a separate process.

    It calls the store's scripts directly: with a client and an engine, two cores are too slow for
    1,000 starts and ends a second beside the reader.
    """
    store = Store(settings.redis_url or "", settings.prefix)
    with closing(store):
        for turn in itertools.count():
            if ended.is_set():
                return
            ids = [f"goes-{number}-{turn}-{each}" for each in range(BATCH)]
            for run_id in ids:
                new_run(store, run_id, submitted_by=OWNER, fields={"submitted_by": OWNER})
            store.redis.delete(
                *store.keys.queue_names
            )  # The messages: the next lines deliver them.
            for run_id in ids:
                granted = try_claim(store, run_id, epoch=0, step=0)
                assert isinstance(granted, Claim), granted
                assert commit_end(store, granted)[0] == "ok"
            with count.get_lock():
                count.value += 2 * BATCH


class Traffic:
    """Runs that constantly start and end, in other processes."""

    def __init__(self, count: Any) -> None:
        self._count = count
        self._began, self._before, self._at_page = time.monotonic(), count.value, count.value

    @property
    def moves(self) -> int:
        """Number of starts and ends since it began."""
        return int(self._count.value - self._before)

    @property
    def rate(self) -> float:
        """The starts and ends a second since it began."""
        return self.moves / (time.monotonic() - self._began)

    def pass_by(self) -> None:
        """Wait until ``MOVES`` starts and ends have happened since the page before.

        Raises:
            TimeoutError: The traffic has ended.
        """
        until = time.monotonic() + PATIENCE
        while self._count.value < self._at_page + MOVES:
            if time.monotonic() > until:
                raise TimeoutError(f"the traffic has ended, after {self.moves} starts and ends")
            time.sleep(0.001)
        self._at_page = self._count.value


@contextmanager
def _with_traffic(ground: Ground) -> Iterator[Traffic]:
    """Start the traffic, and end it afterwards."""
    forked = multiprocessing.get_context("spawn")
    ended, count = forked.Event(), forked.Value("i", 0)
    processes = [
        forked.Process(target=_traffic, args=(ground.settings, number, ended, count))
        for number in range(TRAFFIC)
    ]
    for each in processes:
        each.start()
    try:
        while not count.value:
            time.sleep(0.05)
        yield Traffic(count)
    finally:
        ended.set()
        for each in processes:
            each.join(60)


def readers(size: int) -> Figures:
    """Scan ``size`` parked runs, and a tenth as many questions, while other runs start and end."""
    with ExitStack() as running:
        modules = ("tests.trials.lists",)
        ground = running.enter_context(place(flow_modules=modules))
        driver = running.enter_context(driving(ground.settings))
        rest = {ground.client.submit("trial_parked", inputs={}).id for _ in range(size)}
        asked = {
            ground.client.submit("trial_asks", inputs={}, submitted_by=OWNER).id
            for _ in range(size // 10)
        }
        driver.play(10 * size)
        scans = max(3, size // 50)
        missed = twice = 0
        traffic = running.enter_context(_with_traffic(ground))
        for number in range(scans):
            show_progress(number, scans, f"{missed} missed, {twice} twice")
            for expected, found in (
                (rest, _listed(ground.client, traffic)),
                (asked, _asked(ground.client, OWNER if number % 2 else None, traffic)),
                (rest, _signalled(ground.client) if number % 100 == 0 else rest),
            ):
                ids = [each for each in found if each in expected]
                missed += len(expected) - len(set(ids))
                twice += len(ids) - len(set(ids))
        moves, rate = traffic.moves, traffic.rate
    text = (
        f"{size:,} parked runs and {len(asked):,} questions, {scans} scans each beside {moves:,} "
        f"starts and ends, {rate:.0f} a second: {missed} missed, {twice} twice"
    )
    return Figures(text, missed == twice == 0)


def _listed(client: Client, traffic: Traffic) -> Iterable[str]:
    cursor = None
    while True:
        traffic.pass_by()
        page = client.runs(RunStatus.RUNNING, limit=PAGE, cursor=cursor)
        yield from (run.id for run in page.runs)
        cursor = page.cursor
        if cursor is None:
            return


def _asked(client: Client, owner: str | None, traffic: Traffic) -> Iterable[str]:
    cursor = None
    while True:
        traffic.pass_by()
        page = client.inbox(PAGE, cursor, submitted_by=owner)
        yield from (each.run_id for each in page.waiting)
        cursor = page.cursor
        if cursor is None:
            return


def _signalled(client: Client) -> Iterable[str]:
    done = client.signal_many("other", flow="trial_parked", key=f"k{time.monotonic()}")
    return [each.run_id for each in done]


def _take(number: int, context: RoundContext) -> list[int]:
    """Take three signals, a moment after each other, and say which."""
    taken = []
    for _ in range(3):
        context.cancelled.wait(0.02)
        signal = context.take("coin")
        if signal is not None:
            taken.append(signal.payload)
    return taken


@workflow("trial_takers")
def takers_workflow(steps: Steps, steps_at_once: int) -> list[list[int]]:
    """Wait until all signals are sent; then steps at once, each of which takes up to three."""
    steps.wait_for("begin")
    return steps.gather(
        Step(_take, number, name=f"take-{number}", idempotent=True)
        for number in range(steps_at_once)
    )


def takers(size: int) -> Figures:
    """Take ``size`` signals by steps at once, fifteen of a run, while workers are killed: each
    signal goes to one step.
    """
    each = 15
    with (
        place(flow_modules=("tests.trials.lists",)) as ground,
        ground.killing(1.0, modules="tests.trials.lists") as kills,
    ):
        runs = [
            ground.client.submit("trial_takers", inputs={"steps_at_once": 5}).id
            for _ in range(max(1, size // each))
        ]
        for run_id in runs:
            for number in range(each):
                ground.client.signal(run_id, "coin", number)
            ground.client.signal(run_id, "begin")
        ended = [ground.client.wait(run_id, 600) for run_id in runs]
        left = sum(sum(ground.client.unread(run_id).values()) for run_id in runs)
    taken = lost = twice = 0
    for run in ended:
        got = [number for numbers in run.answer or () for number in numbers]
        taken += len(got)
        twice += len(got) - len(set(got))
        lost += each - len(set(got))
    text = (
        f"{taken:,} of {each * len(runs):,} signals taken by steps at once, {len(kills)} kills: "
        f"{lost - left} lost, {twice} twice, {left} unread"
    )
    return Figures(text, lost == left and twice == 0 and taken > 0 and len(kills) > 0)
