"""Story: one run of a plot from the submission to the end, in one thread and without waiting, with
faults at chosen points.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import redis

from perdure import RoundContext
from perdure.flows.rounds.flow import Flow
from perdure.worker.messaging.publisher import Publisher
from perdure.worker.store import Store, StoreUnavailable
from tests.crash.points.faults import Died, Fault, Wire, WiredConnection
from tests.crash.points.laws import Violation, at_a_death
from tests.crash.points.plot import Person, Plot, PlottedFlow, Receiver
from tests.crash.points.process import ClientProcess, Process, WorkerProcess
from tests.crash.points.sleep import Sleepers
from tests.crash.points.stage import Stage
from tests.support.runs import START

#: A story that has not ended after this number of turns never ends: without a fault it takes about
#: a dozen, and each fault adds a few.
TURNS = 120
#: How far the clock is set forward where nothing can happen before (ms): two steps are a lease, and
#: one is no silence yet.
FORWARD = 2_000
#: And by every turn.
TICK = 5
#: All that a turn asks of the server, in one request that is none of the story's.
LOOK = """
local found = redis.call('TYPE', KEYS[3]).ok == 'hash' and redis.call('HMGET', KEYS[3], 'phase', 'epoch', 'step') or {false, false, false}
return {redis.call('LLEN', KEYS[1]), redis.call('LLEN', KEYS[2]), found[1], found[2], found[3]}
"""


class Story:
    """See the module.

    Args:
        wakes: for a worker that stands still: ``later``, when others have moved the run on, or
            ``between``, in the middle of the round of the other worker, or ``a round on``, in the
            middle of the next one.
        sweeps, change, dispatcher, key_of: parts that the controls take away: the sweep, a rule of
            a script, the engine's dispatcher, the engine's idempotency key.
    """

    def __init__(
        self,
        stage: Stage,
        plot: Plot,
        faults: Iterable[Fault] = (),
        *,
        wakes: str = "later",
        sweeps: bool = True,
        change: Callable[[Store], None] | None = None,
        dispatcher: Callable[[Process], Publisher] | None = None,
        key_of: Callable[[RoundContext], str] = lambda context: context.idempotency_key,
    ) -> None:
        self.app, self.settings, self.url, self.broker_url = (
            stage.app,
            stage.settings,
            stage.url,
            stage.broker_url,
        )
        self.inspector, self.outbox, self.fetches = stage.inspector, stage.outbox, stage.fetches
        self.plot, self.faults = plot, list(faults)
        self.sweeps, self.change, self.dispatcher, self.key_of = sweeps, change, dispatcher, key_of
        self.now = START
        self.stores: list[Store] = []
        self.processes: list[Process] = []
        self.clients: list[ClientProcess] = []
        self.workers: list[WorkerProcess] = []
        self.person, self.receiver = Person(plot), Receiver()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.refused: list[str] = []
        self.doubled = False
        #: Laws that did not hold on the way.
        self.found: list[Violation] = []
        self._look = self.inspector.redis.register_script(LOOK)
        self.sleepers = Sleepers(self, wakes)
        self.wire = Wire(self.faults, self.sleepers.sleep, self._cut)
        self.broker = (
            redis.Redis.from_url(self.broker_url, decode_responses=True)
            if self.outbox
            else self.inspector.redis
        )

    # The play.

    def play(self) -> Story:
        """Play it to its end, or until it is clear that it has none."""
        random.seed(7)
        self.inspector.redis.flushall()
        self.inspector.now = self.now
        WiredConnection.wire, PlottedFlow.stage = self.wire, self
        try:
            for _ in range(TURNS):
                if self._turn():
                    break
            else:
                self.found.append(
                    Violation(
                        "V1",
                        f"the story has no end: after {TURNS} turns the run is {self.look()[1]}",
                    )
                )
            for worker in list(self.workers):
                self.sleepers.start(partial(self._leaves, worker))
        finally:
            PlottedFlow.stage = None
            self.sleepers.wake_all()
            for process in self.processes:
                process.close()
            if self.outbox:
                self.broker.close()
        return self

    def _leaves(self, worker: WorkerProcess) -> None:
        with self.living(worker):
            worker.leave()

    def _turn(self) -> bool:
        """Play one event; return whether the story is over."""
        self.set_forward(TICK)
        queue, (phase, _, step) = self.look()
        if self.person.wants or self.person.sees_wait(phase, step):
            self.person_acts()
        elif queue is not None:
            self.worker_acts(lambda worker: worker.work(queue))
        elif self.person.end is None and phase in (
            "interrupted",
            "stopped",
            "errored",
            "completed",
        ):
            self.person_acts()
        elif self.person.end is not None and not self.has_follow_ups():
            return not self.sleepers.wake_all()
        else:
            self.set_forward(FORWARD)
            self.wire.moment += 1
            self.worker_acts(WorkerProcess.sweep)
        if self.sleepers.asleep:
            self.sleepers.wake_those_left_behind()
        return False

    def look(self) -> tuple[str | None, tuple[str | None, ...]]:
        """Return the queue that has messages, if one has, and the run's phase, epoch and step (all
        None before it is acknowledged).
        """
        keys = self.inspector.keys
        key = "" if self.person.run_id is None else keys.run(self.person.run_id)
        first, second, *where = self._look(keys=[*keys.queue_names, key])
        if self.outbox:
            first, second = map(self.broker.llen, keys.queue_names)
        return keys.queue_names[0] if first else keys.queue_names[1] if second else None, tuple(
            where
        )

    def has_follow_ups(self) -> bool:
        """Return whether a sweep has something to pass on for the children of a run."""
        return bool(self.inspector.redis.exists(self.inspector.keys.follow_ups))

    def between_rounds(self) -> None:
        """Let time pass before a worker goes on with its commit's message; the person repeats
        unacknowledged requests.
        """
        self.set_forward(TICK)
        while self.person.wants:
            self.person_acts()

    def set_forward(self, ms: int) -> None:
        self.now += ms
        for store in (self.inspector, *self.stores):
            store.now = self.now

    # Who plays it.

    def client(self) -> ClientProcess:
        if not self.clients:
            self.clients.append(ClientProcess(self, f"client-{len(self.processes)}"))
            self.processes.append(self.clients[-1])
        return self.clients[-1]

    def worker_acts(self, act: Callable[[WorkerProcess], None]) -> None:
        """Let the worker act; a new one starts first if the last one died or stands still."""
        worker = self.workers[-1] if self.workers else self._new_worker()

        def acts() -> None:
            with self.living(worker):
                if not worker.started:
                    worker.start()
                act(worker)

        self.sleepers.start(acts)

    def _new_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self, f"worker-{len(self.processes)}")
        self.workers.append(worker)
        self.processes.append(worker)
        return worker

    @contextmanager
    def living(self, process: Process) -> Iterator[None]:
        """Make the process the actor; if it dies, only its acts are over."""
        before, self.wire.actor = self.wire.actor, process
        try:
            yield
        except Died as died:
            if died.actor is not process:
                raise
            self._mourn(process)
        finally:
            self.wire.actor = before

    def _mourn(self, process: Process) -> None:
        process.die()
        for living in (self.clients, self.workers):
            if process in living:
                living.remove(process)  # type: ignore[arg-type]
        if self.outbox:  # the broker sees the connection end
            self.redeliver()
        self.found += at_a_death(self)

    # The acts of the person.

    def person_acts(self) -> None:
        client = self.client()
        with self.living(client):
            try:
                self.person.act(client)
            except StoreUnavailable as error:
                self.refused.append(str(error))
        if self.plot.doubled and self.person.run_id is not None and not self.doubled:
            self.doubled = True
            self.double(self.person.run_id)

    def stop_if_wanted(self, context: RoundContext) -> None:
        """Stop the run in the middle of a round, as the person."""
        if (
            self.plot.stops is not None
            and self.plot.stops[0] == context.step
            and not self.person.tried_to_stop
        ):
            self.person.tried_to_stop = True
            self.person_acts()
            self.worker_beats()

    def worker_beats(self) -> None:
        self.wire.actor.beat()

    # The acts of the broker.

    def double(self, run_id: str) -> None:
        """Push the run's message once more, like a resend."""
        queue, message = self.inspector.redis.hmget(
            self.inspector.keys.run(run_id), "queue", "message"
        )
        self.broker.lpush(queue, message)

    def unacknowledged(self, queue: str) -> str:
        return f"{queue}.unacknowledged"

    def redeliver(self) -> None:
        for queue in self.inspector.keys.queue_names:
            while self.broker.lmove(self.unacknowledged(queue), queue, "LEFT", "RIGHT"):
                pass

    def _cut(self, name: str) -> None:
        if name == "LMOVE":  # the consumer's connection: its messages go to another
            self.redeliver()

    # The knowledge of the story.

    def boundary(self, name: str) -> None:
        """Meet a boundary of user code."""
        self.wire.meet(name, request=False)
        if name in ("before decide", "before the effect"):
            self.sleepers.in_a_round()

    def make_flow(self) -> Flow:
        """Make the flow, as the registry does each round."""
        self.boundary("the flow is made")
        return PlottedFlow()

    def tell(self, what: str, **details: Any) -> None:
        self.told.append((what, details))
