"""Playing: how a story's run gets on. Every worker, client and sweep is the real thing, called in turn from this thread."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flows.base import Flow
from worker.engine import Engine
from worker.errors import InvalidInput
from worker.rounds import Rounds
from worker.sweep import Sweeper
from worker.testing.answering import Answers
from worker.testing.boundaries import Place
from worker.testing.failures import Abandoned, LabError, ProcessGone, Stuck
from worker.testing.ground import LabClient
from worker.testing.process_memory import ProcessMemory
from worker.testing.story import Call, Story
from worker.testing.telling import swept
from worker.testing.watching import Pulse, WatchedStore


@dataclass(frozen=True)
class Submission:
    """What is submitted, the same in every story. ``options`` are ``Client.submit``'s."""

    run_id: str
    name: str
    goal: str
    inputs: Mapping[str, Any]
    options: Mapping[str, Any]
    answers: Answers


@dataclass(eq=False)
class Round:
    """A delivered message in the hands of a worker."""

    worker: int
    text: str
    step: int
    attempt: int
    pulse: Pulse
    node: str = ""
    dead: bool = False
    told_to_stop: bool = False
    calls: list[Call] = field(default_factory=list)


class Playing(ABC):
    """Moves one run from submission to end; what is done to it on the way is its subclass's.

    Args:
        make: makes a fresh flow object for a round.
        story: what happens is told there.
        moved: whether each round is played by another process.
        patience: rounds and waits after which a run that has not ended is given up.
    """

    def __init__(
        self,
        engine: Engine,
        store: WatchedStore,
        client: LabClient,
        submission: Submission,
        make: Callable[[], Flow],
        story: Story,
        *,
        moved: bool,
        patience: int,
    ) -> None:
        self._engine, self._store, self._client = engine, store, client
        self._submission, self._make, self._story, self._moved = submission, make, story, moved
        self._memory = ProcessMemory(make())
        self._sweeper = Sweeper(store, engine.dispatcher, engine.settings, "lab", dict)
        self._worker = self._workers = 1
        self._round: Round | None = None
        self._attempts: Counter[int] = Counter()
        self._patience = patience
        #: Rounds, and waits for something to be due, so far.
        self.moves = 0

    @abstractmethod
    def passed(self, place: Place, label: str = "") -> None:
        """The run is at a boundary."""

    @abstractmethod
    def _watched(self) -> Flow:
        """A fresh flow for a round, watched."""

    def _play_out(self) -> None:
        """From submission to end."""
        self._store.now = None
        self._store.now = self._store.time()
        self._sweeper.sweep()  # before the first sweep, all that was would count as an outage
        try:
            self._client.submit(
                self._submission.name,
                self._submission.goal,
                self._submission.inputs,
                run_id=self._submission.run_id,
                **self._submission.options,
            )
            self._go_on(lambda: False)
            self._story.ended = self._client.get(self._submission.run_id)
            self._story.events = list(self._client.events(self._submission.run_id, follow=False))
        finally:
            self._store.forget(self._submission.run_id)
            self._memory.restore()

    def _go_on(self, enough: Callable[[], bool]) -> None:
        """Deliver, answer, resume, sweep, until ``enough``, or until the run has ended and no message is left."""
        while not enough():
            self.moves += 1
            if self.moves > self._patience:
                raise Abandoned(Stuck(f"the run has not ended after {self._patience} rounds and waits; it is at step {self._at()[0]}"))
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
                case "stopped":
                    self._story.trace.tell("the run is resumed")
                    self._client.resume(self._submission.run_id)
                case phase:
                    self._wait(phase)

    def _deliver(self, text: str) -> str:
        """Hand a message to the worker in hand; the word that its round came to, or ``gone``."""
        (run_id, epoch, step), *_ = json.loads(base64.b64decode(json.loads(text)["body"]))
        if self._moved:
            self._another_worker()
        pulse = Pulse(self._store, self._engine.settings.heartbeat_seconds)
        mine = Round(self._worker, text, step, self._attempts[step] + 1, pulse)
        rounds = Rounds(
            self._store,
            self._engine.dispatcher,
            pulse,
            self._engine.settings,
            {self._submission.name: self._watched},
            owner=f"worker {mine.worker}",
        )
        outer, self._round = self._round, mine
        try:
            self.passed("received")
            return rounds.play(run_id, epoch, step)
        except ProcessGone:
            self._another_worker()
            return "gone"
        finally:
            self._round = outer

    def _answer(self, fields: Mapping[str, str]) -> None:
        self.passed("asked")
        if self._fields()["phase"] != "interrupted":
            return  # somebody stopped it meanwhile
        try:
            answer = self._submission.answers.to(fields)
        except LabError as error:
            raise Abandoned(error) from error
        if not answer.given:
            self._wait("interrupted")
            return
        self._story.trace.tell(answer.told)
        self._client.resume(self._submission.run_id, answer.value)

    def _wait(self, phase: str) -> None:
        """Let time pass until the run is due, and sweep."""
        assert self._store.now is not None
        due = self._store.due(self._submission.run_id)
        if due is None:
            raise Abandoned(Stuck(f"nobody will ever move the run, which is {phase}"))
        if phase == "leased":
            # No faster than sweepers sweep: a longer silence would spare the lease, as after an outage.
            self._store.now += min(round(self._engine.settings.lease_seconds * 500), max(1, due - self._store.now))
        else:
            self._store.now = max(self._store.now, due)
        for _, word in self._sweeper.sweep():
            if word in swept:
                self._story.trace.tell(swept[word])

    @contextmanager
    def _elsewhere(self) -> Iterator[None]:
        """In another process, while this one stands where it is."""
        here, mine, kept = self._worker, self._round, self._memory.capture()
        self._another_worker()
        self._round = None
        try:
            yield
        finally:
            self._worker, self._round = here, mine
            self._memory.restore(kept)

    def _another_worker(self) -> None:
        """From here on a fresh process plays."""
        for lost in self._memory.changes():
            self._story.trace.tell(f"another process plays on; it does not have {lost}")
        self._memory.restore()
        self._workers += 1
        self._worker = self._workers

    @property
    def _in_hand(self) -> Round:
        assert self._round is not None, "no round is in hand"
        return self._round

    def _tell(self, text: str) -> None:
        round_ = self._in_hand
        self._story.trace.tell(text, round_.step, round_.node, round_.attempt)

    def _fields(self) -> dict[str, str]:
        fields = self._store.fields(self._submission.run_id)
        if fields is None:
            raise Abandoned(InvalidInput(f"run {self._submission.run_id} is gone from the lab's server; who else uses its prefix?"))
        return fields

    def _at(self) -> tuple[int, int, str]:
        """Step, attempts and node of the run between its rounds."""
        fields = self._fields()
        return int(fields["step"]), int(fields["attempt"]), fields["current_node"]
