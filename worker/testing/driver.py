"""Driver of a story: runs Perdure's real worker, client and sweeper code in one thread."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from perdure.flows.rounds import registry
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.messages_to_run import HEARD
from perdure.flows.workflows.questions import FLOW as QUESTIONS
from perdure.worker.domain.record import awaited
from perdure.worker.engine.rounds import RoundRunner
from perdure.worker.engine.sweeper import Sweeper
from perdure.worker.errors import InvalidInput
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.testing.answers import Answers
from perdure.worker.testing.errors import Abandoned, LabError, ProcessGone, Stuck
from perdure.worker.testing.faults import Kind, Place
from perdure.worker.testing.instrument import LabHeartbeat, WatchedStore
from perdure.worker.testing.process_state import ProcessMemory
from perdure.worker.testing.server import LabClient
from perdure.worker.testing.signals import LabSignals
from perdure.worker.testing.story import Call, Story, short, swept


@dataclass(frozen=True)
class LabSubmission:
    """The run that the lab submits in each story, and the test's answers and signals to it.

    Attributes:
        name: The name of the flow.
        options: Further arguments of ``Client.submit``.
    """

    run_id: str
    name: str
    goal: str
    inputs: Mapping[str, Any]
    options: Mapping[str, Any]
    answers: Answers
    signals: LabSignals


@dataclass(eq=False)
class DeliveredRound:
    """A round whose message the lab has delivered to one of its simulated workers.

    Attributes:
        worker: The number of the worker.
        text: The message.
        dead: Whether the lab has simulated the death of the worker.
        told_to_stop: Whether the run was stopped with mode ``now`` during this round.
        calls: The calls of commands in this round.
    """

    worker: int
    text: str
    step: int
    attempt: int
    pulse: LabHeartbeat
    node: str = ""
    dead: bool = False
    told_to_stop: bool = False
    calls: list[Call] = field(default_factory=list)


class Driver(ABC):
    """Moves one run from submission to end. A subclass injects the faults.

    Args:
        make: Creates a new flow object for a round.
        story: Receives calls, events and trace.
        whole: The fault that lasts through the whole run. None if there is no such fault.
        patience: The number of rounds and waits after which a run that has not ended is aborted.
    """

    def __init__(
        self,
        engine: Runtime,
        store: WatchedStore,
        client: LabClient,
        submission: LabSubmission,
        make: Callable[[], Flow],
        story: Story,
        *,
        whole: Kind | None,
        patience: int,
    ) -> None:
        self._engine, self._store, self._client = engine, store, client
        self._submission, self._make, self._story, self._whole = submission, make, story, whole
        self._memory = ProcessMemory(make())
        self._sweeper = Sweeper(store, engine.publisher, engine.settings, "lab", dict)
        self._worker = self._workers = 1
        self._round: DeliveredRound | None = None
        self._attempts: Counter[int] = Counter()
        self._patience = patience
        self._sent: Counter[str] = Counter()
        self._parked_at: tuple[int, int] | None = None
        #: Number of rounds and of waits so far.
        self.moves = 0

    @abstractmethod
    def passed(self, place: Place, label: str = "") -> None:
        """Record that the run has reached a boundary. A subclass can inject a fault there.

        Args:
            place: The kind of boundary.
            label: The name of the ``point``, or of the part that ran.
        """

    @abstractmethod
    def _watched(self) -> Flow:
        """Return a new flow object that reports its rounds to this driver."""

    def _play_out(self) -> None:
        """Submit the run, move it to its end, and record its events in the story.

        Afterwards, also after an error, the run is deleted on the state server, and the flow's data
        in this process is restored.
        """
        self._store.now = None
        self._store.now = self._store.time()
        self._sweeper.sweep()  # Without a first sweep, the past would count as an outage.
        try:
            self._client.submit(
                self._submission.name,
                self._submission.goal,
                self._submission.inputs,
                run_id=self._submission.run_id,
                # Idempotency keys depend on the nonce, and must be equal in all stories.
                nonce=sha256(self._submission.run_id.encode()).hexdigest()[:32],
                **self._submission.options,
            )
            if self._whole == "signals early":
                for name in self._submission.signals.names:
                    while self._send(name):
                        pass
            self._go_on(lambda: False)
            self._story.ended = self._client.get(self._submission.run_id)
            self._story.events = list(self._client.events(self._submission.run_id, follow=False))
        finally:
            self._store.forget(self._submission.run_id)
            self._memory.restore()

    def _go_on(self, enough: Callable[[], bool]) -> None:
        """Move the run on until it has ended or ``enough()`` is true.

        The run's phase decides what is done: deliver its message, answer its interrupt, send it a
        signal, resume it, or let time pass and sweep.

        Raises:
            Abandoned: The run takes more than ``patience`` rounds and waits, or waits for something
                that the test does not send.
        """
        while not enough():
            self.moves += 1
            if self.moves > self._patience:
                raise Abandoned(
                    Stuck(
                        f"the run has not ended after {self._patience} rounds and waits; "
                        f"it is at step {self._at()[0]}"
                    )
                )
            text = self._store.take()
            if text is not None:
                self._deliver(text)
                continue
            fields = self._fields()
            match fields["phase"]:
                case "completed" | "errored":
                    return
                case "interrupted":
                    self._answer(fields)
                case "parked":
                    self._bring_signal(fields)
                case "stopped":
                    self._story.trace.tell("the run is resumed")
                    self._client.resume(self._submission.run_id)
                case phase:
                    self._wait(phase)

    def _deliver(self, text: str) -> str:
        """Deliver a message to the current worker, which runs the round of the message.

        Args:
            text: The message, as it is in the queue.

        Returns:
            The word of ``RoundRunner.run`` for how the round ended, or ``gone`` if the worker died.
        """
        (run_id, epoch, step), *_ = json.loads(base64.b64decode(json.loads(text)["body"]))
        if run_id != self._submission.run_id:
            return self._play_child(run_id, epoch, step)
        if self._whole == "moved":
            self._another_worker()
        pulse = LabHeartbeat(self._store, self._engine.settings.heartbeat_seconds)
        current = DeliveredRound(self._worker, text, step, self._attempts[step] + 1, pulse)
        rounds = RoundRunner(
            self._store,
            self._engine.publisher,
            pulse,
            self._engine.settings,
            {self._submission.name: self._watched},
            owner=f"worker {current.worker}",
        )
        outer, self._round = self._round, current
        try:
            self.passed("received")
            return rounds.run(run_id, epoch, step).word
        except ProcessGone:
            self._another_worker()
            return "gone"
        finally:
            self._round = outer

    def _play_child(self, run_id: str, epoch: int, step: int) -> str:
        """Run a child run's round without faults. Return the word for how the round ended.

        Raises:
            Abandoned: The child run waits, and it is not a question that the test answers.
        """
        self._pass_parked()
        flows = {**registry.registered(), self._submission.name: self._make}
        pulse = LabHeartbeat(self._store, self._engine.settings.heartbeat_seconds)
        rounds = RoundRunner(
            self._store,
            self._engine.publisher,
            pulse,
            self._engine.settings,
            flows,
            owner="worker of children",
        )
        watcher, self._store.rounds.watcher = self._store.rounds.watcher, None
        try:
            word = rounds.run(run_id, epoch, step).word
        finally:
            self._store.rounds.watcher = watcher
        if word in ("completed", "errored"):
            self._story.trace.tell(f"the child run {run_id} has {word}")
        elif word in ("interrupted", "parked"):
            fields = self._store.reads.fields(run_id) or {}
            flow = fields.get("flow")
            if flow == QUESTIONS and self._answer_run(run_id, fields):
                return word
            raise Abandoned(
                LabError(
                    f"the child run {run_id} (flow {flow}) waits, and the lab has answers and "
                    "signals for the run itself only. Replace its flow by a flow that does not wait"
                )
            )
        return word

    def _answer(self, fields: Mapping[str, str]) -> None:
        self.passed("asked")
        if self._fields()["phase"] != "interrupted":
            return  # stopped meanwhile by the fault
        if not self._answer_run(self._submission.run_id, fields):
            self._wait("interrupted")

    def _answer_run(self, run_id: str, fields: Mapping[str, str]) -> bool:
        """Answer a run's interrupt.

        Returns:
            False if the test has no answer, so that the run waits for the deadline.

        Raises:
            Abandoned: The test has no answer, and the interrupt has no deadline.
        """
        try:
            answer = self._submission.answers.to(fields)
        except LabError as error:
            raise Abandoned(error) from error
        if answer.given:
            self._story.trace.tell(answer.told)
            self._client.resume(run_id, answer.value)
        return answer.given

    def _bring_signal(self, fields: Mapping[str, str]) -> None:
        """Send the parked run a signal that it waits for, or else let time pass.

        Raises:
            Abandoned: The test has no such signal left, and the wait has no timeout.
        """
        self._pass_parked()
        if self._fields()["phase"] != "parked":
            return  # stopped meanwhile by the fault
        names = awaited(fields)["signals"]
        if any(self._send(name) for name in names):
            return
        if names and "wait_until" not in fields:
            raise Abandoned(self._submission.signals.missing(fields, names, self._sent))
        self._wait("parked")

    def ending(self) -> None:
        """Send the test's next message (``say`` or ``ask``) just before the run's end is committed.

        This moment is the hardest: the round that ends the run has not read the message.
        """
        for name in HEARD:
            if self._send(name):
                return

    def _pass_parked(self) -> None:
        """Report the boundary ``parked`` as passed, once for each wait of the run."""
        step, attempt, _ = self._at()
        if self._fields()["phase"] == "parked" and self._parked_at != (step, attempt):
            self._parked_at = step, attempt
            self.passed("parked")

    def _send(self, name: str) -> bool:
        """Send the run the test's next signal of this name.

        Returns:
            False if the test has no further signal of this name. Nothing is sent then.
        """
        given, place = self._submission.signals.of(name), self._sent[name]
        if place >= len(given):
            return False
        self._sent[name] += 1
        times = 2 if self._whole == "signals twice" else 1
        for _ in range(times):
            self._client.signal(self._submission.run_id, name, given[place], key=f"signal-{place}")
        again = ", twice" if times == 2 else ""
        self._story.trace.tell(f"the signal {name} {short(given[place])} is sent{again}")
        return True

    def _wait(self, phase: str) -> None:
        """Set the lab's clock to the time at which the run is due, and sweep.

        While the run is leased, the clock advances by half a lease at most.

        Args:
            phase: The phase of the run.

        Raises:
            Abandoned: The run is not due at any time.
        """
        assert self._store.now is not None
        due = self._store.due(self._submission.run_id)
        if due is None:
            raise Abandoned(Stuck(f"the run is {phase} and not due, so nothing will ever move it"))
        if phase == "leased":
            # Advance no faster than real sweepers sweep: after a longer silence the sweep would
            # extend the lease, as after an outage.
            self._store.now += min(
                round(self._engine.settings.lease_seconds * 500), max(1, due - self._store.now)
            )
        else:
            self._store.now = max(self._store.now, due)
        for _, word in self._sweeper.sweep():
            if word in swept:
                self._story.trace.tell(swept[word])

    @contextmanager
    def _elsewhere(self) -> Iterator[None]:
        """Simulate a second worker process inside the ``with`` block, while the first is frozen."""
        here, mine, memory = self._worker, self._round, self._memory.capture()
        self._another_worker()
        self._round = None
        try:
            yield
        finally:
            self._worker, self._round = here, mine
            self._memory.restore(memory)

    def _another_worker(self) -> None:
        """Simulate that a new worker process continues the run.

        Data that the flow kept in the memory of the previous process is lost. The trace names the
        lost data.
        """
        for lost in self._memory.changes():
            self._story.trace.tell(f"another process plays on; it does not have {lost}")
        self._memory.restore()
        self._workers += 1
        self._worker = self._workers

    @property
    def _in_hand(self) -> DeliveredRound:
        assert self._round is not None, "no round is in hand"
        return self._round

    def _tell(self, text: str) -> None:
        round_ = self._in_hand
        self._story.trace.tell(text, round_.step, round_.node, round_.attempt)

    def _fields(self) -> dict[str, str]:
        fields = self._store.reads.fields(self._submission.run_id)
        if fields is None:
            raise Abandoned(
                InvalidInput(
                    f"run {self._submission.run_id} is gone from the lab's server; "
                    "does another program use its prefix?"
                )
            )
        return fields

    def _at(self) -> tuple[int, int, str]:
        """Return the run's step, the number of attempts at the step, and its node."""
        fields = self._fields()
        return int(fields["step"]), int(fields["attempt"]), fields["current_node"]
