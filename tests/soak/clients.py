"""Clients during the soak: they submit and signal with keys, look, stop, resume and retry, and
write down each call and its reply.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from perdure import Client, Run, RunStatus, Settings, SignalReceipt
from perdure.worker.domain.stop import StopReceipt
from perdure.worker.errors import PerdureError
from perdure.worker.store import StoreUnavailable
from tests.soak.cluster import Cluster
from tests.soak.history import Call, Read
from tests.soak.workload import ALONE, FAMILY, SIGNAL

#: Seconds between two looks of a reader, between two stops of a steersman.
LOOK_EVERY, STEER_EVERY = 0.1, 0.5
#: The steersman steers one run in five, and no more than these at a time of the newest; the rest
#: goes its way.
STEERED_ONE_IN, STEERED_AT_A_TIME = 5, 20
#: Seconds until a call whose outcome is unknown is made again.
AGAIN_AFTER = 0.2
#: How long a round takes, in seconds.
ROUND_SECONDS = (0.05, 0.8)
#: Each signal is sent twice within this time (seconds) of the submission. About half of the parents
#: get it at once, before they wait. Most others wait for it: their children take less time than
#: that.
SIGNALS_WITHIN = 6.0


class Notebook:
    """The records of all clients, and the known runs."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.reads: list[Read] = []
        self.runs: list[str] = []

    def call(
        self, name: str, run: str, operation: Callable[[], Any], key: str | None = None
    ) -> Any:
        """Make one call and write it down; return its reply, or None if it was refused or its
        outcome is unknown.
        """
        asked = time.time()
        reply: Any = None
        outcome = "acknowledged"
        told: Mapping[str, Any] = {}
        try:
            reply = operation()
            told = _told(reply)
        except StoreUnavailable as error:
            outcome, told = "unknown", {"error": str(error)[:200]}
        except PerdureError as error:
            outcome, told = "refused", {"error": f"{type(error).__name__}: {error}"[:200]}
        self.calls.append(
            Call(
                name,
                reply.id if isinstance(reply, Run) else run,
                asked,
                time.time(),
                outcome,
                told,
                key,
            )
        )
        return reply


class Clients:
    """The threads: two that submit, another that submits families and signals them, two that look,
    a last one steers.

    Half of them are behind the proxy.

    Args:
        runs, rounds: how many runs of how many rounds each.
        families: how many parents besides.
        seconds: over which the submissions are spread.
    """

    def __init__(
        self, cluster: Cluster, seed: int, runs: int, rounds: int, families: int, seconds: float
    ) -> None:
        self.notebook = Notebook()
        self._cluster = cluster
        self._rounds = rounds
        self._stopping = threading.Event()
        self._errors: list[BaseException] = []
        began = time.monotonic()
        plan = [(began + seconds * number / runs, number) for number in range(runs)]
        parents = [(began + seconds * number / families, number) for number in range(families)]
        work: list[tuple[str, Callable[[Client, random.Random, str], None], bool]] = [
            ("submit-1", lambda client, chance, _: self._submit(client, chance, plan[::2]), False),
            ("submit-2", lambda client, chance, _: self._submit(client, chance, plan[1::2]), True),
            ("families", lambda client, chance, _: self._families(client, chance, parents), True),
            ("read-1", self._read, False),
            ("read-2", self._read, True),
            ("steer", self._steer, False),
        ]
        self._threads = [
            threading.Thread(
                target=self._work,
                args=(name, does, cluster.settings(proxied), seed),
                name=f"soak-{name}",
                daemon=True,
            )
            for name, does, proxied in work
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submitted(self) -> None:
        """Wait until all runs have been submitted and signalled, through all outages of the server."""
        for thread in self._threads[:3]:
            thread.join()
        self._tell()

    def stop(self) -> None:
        """End the others; raise any error that is no reply of Perdure's."""
        self.abort()
        self._tell()

    def abort(self) -> None:
        """End all, before all is done."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _tell(self) -> None:
        if self._errors:
            raise self._errors[0]

    def _work(
        self,
        name: str,
        does: Callable[[Client, random.Random, str], None],
        settings: Settings,
        seed: int,
    ) -> None:
        client = Client(settings=settings)
        try:
            does(client, random.Random(f"{seed} {name}"), name)
        except BaseException as error:
            self._errors.append(error)
        finally:
            client.close()

    def _submit(self, client: Client, chance: random.Random, plan: list[tuple[float, int]]) -> None:
        for at, number in plan:
            if self._stopping.wait(max(0.0, at - time.monotonic())):
                return
            inputs = {"rounds": self._rounds, "seconds": round(chance.uniform(*ROUND_SECONDS), 3)}
            self._submit_one(client, ALONE, f"goal-{number}", inputs)

    def _submit_one(
        self, client: Client, flow: str, key: str, inputs: Mapping[str, Any]
    ) -> str | None:
        run = self._until_known(
            "submit", "", lambda: client.submit(flow, key, inputs, idempotency_key=key), key
        )
        if run is None:
            return None
        self.notebook.runs.append(run.id)
        return str(run.id)

    def _until_known(self, name: str, run_id: str, operation: Callable[[], Any], key: str) -> Any:
        """Repeat the call until it has a reply, and return that; None if the clients are stopped
        first.
        """
        while not self._stopping.wait(0):
            reply = self.notebook.call(name, run_id, operation, key)
            if reply is not None:
                return reply
            time.sleep(AGAIN_AFTER)  # as any client does: the key makes it one
        return None

    def _families(
        self, client: Client, chance: random.Random, plan: list[tuple[float, int]]
    ) -> None:
        due: list[tuple[float, str, str]] = [(at, f"family-{number}", "") for at, number in plan]
        heapq.heapify(due)
        while due:
            at, key, run_id = heapq.heappop(due)
            if self._stopping.wait(max(0.0, at - time.monotonic())):
                return
            if run_id:
                self._signal(client, run_id, key)
                continue
            inputs = {"seconds": round(chance.uniform(*ROUND_SECONDS), 3)}
            submitted = self._submit_one(client, FAMILY, key, inputs)
            if submitted is not None:
                first = chance.choice([0.0, chance.uniform(0.0, SIGNALS_WITHIN)])
                for after in (first, chance.uniform(first, SIGNALS_WITHIN)):
                    heapq.heappush(due, (time.monotonic() + after, key, submitted))

    def _signal(self, client: Client, run_id: str, key: str) -> None:
        self._until_known(
            "signal", run_id, lambda: client.signal(run_id, SIGNAL, key, key=key), key
        )

    def _read(self, client: Client, chance: random.Random, name: str) -> None:
        while not self._stopping.wait(LOOK_EVERY):
            if self.notebook.runs:
                look(
                    self.notebook,
                    client,
                    name,
                    chance.choice(self.notebook.runs[-400:]),
                    self._cluster.server.restarts,
                )

    def _steer(self, client: Client, chance: random.Random, _: str) -> None:
        stopped: list[str] = []
        while not self._stopping.wait(STEER_EVERY):
            if len(stopped) > chance.randrange(8):
                run_id = stopped.pop(0)
                if (
                    self.notebook.call(
                        "resume", run_id, lambda run_id=run_id: client.resume(run_id)
                    )
                    is None
                ):
                    go_on(self.notebook, client, run_id)
            elif self.notebook.runs:
                run_id = chance.choice(self.notebook.runs[::STEERED_ONE_IN][-STEERED_AT_A_TIME:])
                mode: Any = chance.choice(["graceful", "now"])
                name = "stop" if mode == "graceful" else "stop_now"
                self.notebook.call(
                    name, run_id, lambda run_id=run_id, mode=mode: client.request_stop(run_id, mode)
                )
                stopped.append(run_id)


def look(notebook: Notebook, client: Client, name: str, run_id: str, restarts: int) -> Run | None:
    """Look at a run and record the result; return None without an answer."""
    try:
        run = client.get(run_id)
    except StoreUnavailable:
        return None
    notebook.reads.append(
        Read(
            name,
            run_id,
            time.time(),
            run.status.value,
            run.details["epoch"],
            run.state.step,
            restarts,
        )
    )
    return run


def go_on(notebook: Notebook, client: Client, run_id: str) -> bool:
    """Resume or retry the run if it needs it; whether it has completed."""
    try:
        status = client.get(run_id).status
    except StoreUnavailable:
        return False
    if status is RunStatus.STOPPED:
        notebook.call("resume", run_id, lambda: client.resume(run_id))
    elif status is RunStatus.ERRORED:
        notebook.call("retry", run_id, lambda: client.retry(run_id))
    return status is RunStatus.COMPLETED


def _told(reply: Run | StopReceipt | SignalReceipt) -> Mapping[str, Any]:
    if isinstance(reply, SignalReceipt):
        return {"status": reply.status, "number": reply.number}
    if isinstance(reply, StopReceipt):
        return {
            "status": reply.status,
            "step": reply.step,
            "stopped": reply.stopped,
            "in_doubt": reply.in_doubt,
        }
    return {"status": reply.status.value, "step": reply.state.step, "epoch": reply.details["epoch"]}
