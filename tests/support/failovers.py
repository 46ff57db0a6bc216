"""Failovers under load: runs submitted without a pause, rounds played by workers, the master taken
away; and the losses.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from perdure import Client, NotReplicated, Run, RunNotFound, Settings, StoreUnavailable
from tests.support.commit_log import exact
from tests.support.redis_servers import until
from tests.support.sentinels import Watched
from tests.support.workers import WorkerProcess, workers

ROUNDS = 4
ROUND_SECONDS = 0.05
WORKERS = 2
#: Seconds of submitting before the fault, and after the failover.
BEFORE, AFTER = 1.5, 0.5
#: Seconds that the master goes on serving clients without contact to its replicas; shorter than the
#: Sentinels' limit for its death.
CUT_OFF = 0.7
PAUSE = 0.01


@dataclass
class Told:
    """The answers to clients and workers, and the remaining data.

    Attributes:
        acknowledged: runs whose submit returned. doubtful: runs whose submit raised NotReplicated;
        failed: StoreUnavailable.
        lost: acknowledged, and unknown to the server that is the master in the end.
        confirmed: commits that a worker knows as done. undone: confirmed commits that a failover
            took back.
        recovery: seconds from each fault to the first run that the new master saw to its end.
        elections: failovers that the Sentinels agreed on. More than there were faults: a busy
            machine kept them from a living master, which went on confirming until it learned of the
            failover.
    """

    acknowledged: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    failed: int = 0
    lost: list[str] = field(default_factory=list)
    confirmed: int = 0
    undone: int = 0
    recovery: list[float] = field(default_factory=list)
    elections: int = 0


class Load:
    """A client that submits runs one after the other, and workers that play them."""

    def __init__(self, service: Watched, settings: Settings, ledger: Path) -> None:
        self.service, self.settings = service, settings
        self.told = Told()
        self.client = Client(settings=settings)
        self._ledger = ledger
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._submit_forever)
        self.fleet: list[WorkerProcess] = []

    @contextmanager
    def running(self) -> Iterator[Load]:
        with workers(
            WORKERS,
            self.settings,
            app="tests.support.apps.commit_recorder",
            CONFIRMED=str(self._ledger),
        ) as self.fleet:
            self._thread.start()
            try:
                yield self
            finally:
                self.stop()
                self.client.close()

    def stop(self) -> None:
        """Stop submitting."""
        self._stopping.set()
        self._thread.join()

    def submit(self, client: Client) -> None:
        try:
            run = client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": ROUND_SECONDS})
        except NotReplicated as error:
            self.told.doubtful.append(str(error))
        except StoreUnavailable:
            self.told.failed += 1
        else:
            self.told.acknowledged.append(run.id)

    def _submit_forever(self) -> None:
        client = Client(settings=self.settings)
        while not self._stopping.is_set():
            self.submit(client)
            time.sleep(PAUSE)
        client.close()

    def fail_over(self, fault: Callable[[Load, int], float]) -> None:
        """Take the master away by ``fault``, and wait until there is another, rounds are committed
        and all three are there again.
        """
        old = self.service.master()
        had = len(self.told.acknowledged)
        until(lambda: len(self.told.acknowledged) > had + 10, "submits before the fault", 60)
        time.sleep(BEFORE)
        began = fault(self, old)
        new = self.service.another_master(old)
        # The new master's own word: until it learns of the failover, a stale one may confirm rounds
        # that will be taken back.
        until(
            lambda: bool(self._committed_since(new, began)),
            "rounds committed after the failover",
            120,
        )
        self.told.recovery.append(min(self._committed_since(new, began)) - began)
        time.sleep(AFTER)
        bring_back(self, old)

    def _committed_since(self, port: int, began: float) -> list[float]:
        """Return when (s) the newest runs on that server had their last change, if that was after
        another became the master.
        """
        keys = self.client._store.keys
        with self.service.client(port) as client:
            ids = client.zrange(keys.index("completed"), 0, 5, desc=True)
            times = [
                float(client.hget(keys.run(run_id), "updated_at") or 0) / 1000 for run_id in ids
            ]
        return [moment for moment in times if moment > began]

    def _confirmed(self) -> list[str]:
        return self._ledger.read_text().splitlines() if self._ledger.exists() else []

    def settle(self) -> list[Run]:
        """Wait until all runs of the master have ended, and count the runs that it does not know;
        return its runs.
        """
        self.stop()
        there = []
        for run_id in self.told.acknowledged:
            try:
                there.append(self.client.wait(run_id, 120))
            except RunNotFound:
                self.told.lost.append(run_id)
        until(
            lambda: self.client._store.lists.counts()["live"] == 0,
            "the end of all runs that the master knows",
            120,
        )
        self.told.elections = self.service.elections()
        known = [run.id for run in self._all_runs()]
        lines = self._confirmed()
        surviving = {f"{run_id} {step}" for run_id in known for step in range(ROUNDS)}
        self.told.confirmed = len(lines)
        # Each step of a surviving run was committed once in its log: confirmed commits beyond that
        # were taken back.
        self.told.undone = len(lines) - len(surviving & set(lines))
        return there

    def inexact(self) -> list[str]:
        """Return the runs that the master knows and whose log is not 0, 1, 2, ... in order, each
        once.
        """
        return [run.id for run in self._all_runs() if not exact(self.client, run.id, ROUNDS)]

    def _all_runs(self) -> list[Run]:
        found: list[Run] = []
        cursor = None
        while True:
            page = self.client.runs(limit=200, cursor=cursor)
            found += page
            cursor = page.cursor
            if cursor is None:
                return found


def killed(load: Load, master: int) -> float:
    """Kill the master with SIGKILL, out of the blue."""
    load.service.kill(master)
    return time.time()


def cut_off_and_killed(load: Load, master: int) -> float:
    """Stop its replicas for a while, which its clients do not notice; then kill it."""
    replicas = [port for port in load.service.servers if port != master]
    for port in replicas:
        load.service.signal(port, signal.SIGSTOP)
    with load.service.client(master) as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(CUT_OFF)
    load.service.kill(master)
    began = time.time()
    for port in replicas:
        load.service.signal(port, signal.SIGCONT)
    return began


def frozen(load: Load, master: int) -> float:
    """Suspend the master until another takes over; then it goes on as if it were the master.

    A client that noticed nothing asks at once.
    """
    sleepy = Client(settings=load.settings)
    sleepy.runs(limit=1)
    sleepy._store.redis.ping()
    load.service.signal(master, signal.SIGSTOP)
    began = time.time()
    load.service.another_master(master)
    load.service.signal(master, signal.SIGCONT)
    until_demoted = time.monotonic() + 1.0
    while time.monotonic() < until_demoted:
        load.submit(sleepy)
        time.sleep(PAUSE)
    sleepy.close()
    return began


FAULTS: dict[str, Callable[[Load, int], float]] = {
    "killed": killed,
    "cut off, then killed": cut_off_and_killed,
    "frozen": frozen,
}


def bring_back(load: Load, old: int) -> None:
    """Make the old master a replica of the new one, and wait until all are in step."""
    if load.service.ended(old):
        load.service.start_server(old, load.service.master())
    count = len(load.service.servers) - 1
    until(
        lambda: len(load.service.following(load.service.master())) == count,
        "all replicas in step",
        60,
    )
    until(load.service.well, "Sentinels that see all of them well", 60)
