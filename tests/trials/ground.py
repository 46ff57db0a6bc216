"""The ground of trials: a separate server and client, and workers of which one is killed again and
again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from perdure import Client, Run, Settings
from tests.support.brokers import Broker, ground
from tests.support.example_flows import child_runs, steered_runs, waits  # noqa: F401 -- registers flows
from tests.support.workers import ROOT, WorkerProcess
from tests.trials import flows, ten_steps  # noqa: F401 -- registers flows

#: Where workers find the flows of all trials.
MODULES = (
    "tests.trials.flows",
    "tests.trials.ten_steps",
    "tests.support.example_flows.child_runs",
    "tests.support.example_flows.steered_runs",
    "tests.support.example_flows.waits",
)
#: Seconds: a killed worker's rounds go on soon, as they would with the defaults ten times later.
PACE = {"lease_seconds": 2.0, "heartbeat_seconds": 0.4, "sweep_seconds": 0.3}
THREADS = ("--pool", "threads")
#: Seconds from when the workers are ready to the first kill.
FIRST_KILL = 0.2


@dataclass
class Ground:
    """A separate place: its settings, a client, and the broker if that is another server."""

    settings: Settings
    client: Client
    broker: Broker | None

    def worker(self, *options: str, root: Path = ROOT, **environment: str) -> WorkerProcess:
        """Start a worker that knows the flows of all trials; it may not be ready yet."""
        pace = {f"PERDURE_{name.upper()}": str(getattr(self.settings, name)) for name in PACE}
        pace["PERDURE_FLOW_MODULES"] = ",".join(MODULES)
        return WorkerProcess(
            self.settings, *(options or THREADS), root=root, **{**pace, **environment}
        )

    @contextmanager
    def workers(self, count: int = 2, *options: str) -> Iterator[list[WorkerProcess]]:
        """Start ``count`` workers; kill them afterwards."""
        running = [self.worker(*options) for _ in range(count)]
        try:
            yield [each.ready() for each in running]
        finally:
            for each in running:
                each.close()

    @contextmanager
    def killing(
        self, every: float = 1.0, count: int = 2, modules: str = ",".join(MODULES)
    ) -> Iterator[Kills]:
        """Keep ``count`` workers alive, kill the oldest every ``every`` seconds, and start the next
        one early.

        Enters when they are ready. The first kill follows soon, even in a short trial.
        """
        kills = Kills()
        ready, done = threading.Event(), threading.Event()

        def kill() -> None:
            known = {"PERDURE_FLOW_MODULES": modules}
            running = [self.worker(**known) for _ in range(count + 1)]
            try:
                for each in running:
                    each.ready()
                ready.set()
                while not done.wait(every if kills.times else FIRST_KILL):
                    running.pop(0).close()
                    kills.times.append(time.time())
                    running.append(self.worker(**known))
                    running[count - 1].ready()
            except BaseException as error:
                kills.failed = error
            finally:
                ready.set()
                for each in running:
                    each.close()

        thread = threading.Thread(target=kill, name="kills")
        thread.start()
        try:
            ready.wait()
            yield kills
        finally:
            done.set()
            thread.join()
        if kills.failed is not None:
            raise kills.failed

    def children(self, run: Run) -> list[Run]:
        """Return all children of a run."""
        found, cursor = [], None
        while True:
            page = self.client.children(run.id, 500, cursor)
            found += page.runs
            cursor = page.cursor
            if cursor is None:
                return found

    def count(self, index: str) -> int:
        """Return how many child runs have this status: the size of their index."""
        store = self.client._store
        return int(store.redis.zcard(f"{store.keys.index(index)}:children"))

    def parked(self, flow: str) -> int:
        """Return how many runs of this flow are parked, with any broker."""
        store = self.client._store
        return int(store.redis.hget(store.keys.queues, f"runs:parked:{flow}") or 0)


class Kills:
    """When workers were killed."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.failed: BaseException | None = None

    def __len__(self) -> int:
        return len(self.times)


@contextmanager
def place(handover: str = "fused", **options: object) -> Iterator[Ground]:
    """Start separate servers.

    Args:
        handover: `fused` for one server, `redis` or `rabbit` for a separate broker.
        options: settings, beside the pace.
    """
    told = {"flow_modules": MODULES, **PACE, **options}
    with (
        ground(handover, "trials", "everysec", **told) as (settings, _, broker),
        closing(Client(settings=settings)) as client,
    ):
        yield Ground(settings, client, broker)
