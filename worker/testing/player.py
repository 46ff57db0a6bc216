"""Player: runs one story and injects its fault."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from perdure.flows.commands.approval import Approval
from perdure.flows.core.outcomes import Command, Outcome
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import Flow
from perdure.worker.testing.driver import Driver
from perdure.worker.testing.errors import Abandoned, NotDeterministic, ProcessGone
from perdure.worker.testing.faults import WHOLE, Boundary, Fault, Place, watching
from perdure.worker.testing.instrument import watched
from perdure.worker.testing.story import Call, called, label_of, told_outcome, waits_for


class Player(Driver):
    """Runs one story.

    Args:
        playing: The positional arguments of ``Driver``.
        fault: The fault to inject. None for the undisturbed run.
        expected: The boundaries of the undisturbed run. Up to the fault, the run must pass the same
            boundaries.
        patience: The number of rounds and waits after which a run that has not ended is aborted.
    """

    def __init__(
        self, *playing: Any, fault: Fault | None, expected: Sequence[Boundary], patience: int
    ) -> None:
        super().__init__(
            *playing,
            whole=fault.kind if fault is not None and fault.kind in WHOLE else None,
            patience=patience,
        )
        self._fault, self._expected = fault, expected
        self._fired = False
        self._answered = False
        #: Boundaries that the run passed.
        self.boundaries: list[Boundary] = []

    def play(self) -> None:
        """Run the story and inject its fault, if it has one.

        Raises:
            LabError: The story cannot be run.
            Stuck: The run does not end.
            NotDeterministic: The run took another path before the fault, or ended before the fault.
        """
        token = watching.set(lambda name: self.passed("point", name))
        self._store.rounds.watcher = self
        try:
            with self._changed_rules() if self._whole == "rules changed" else nullcontext():
                self._play_out()
        except Abandoned as abandoned:
            raise abandoned.error from None
        finally:
            self._store.rounds.watcher = None
            watching.reset(token)
        if self._fault is not None and self._fault.boundary is not None and not self._fired:
            raise self._another_way(
                f"it ended before {self._fault.boundary.round}, {self._fault.boundary}"
            )

    @contextmanager
    def _changed_rules(self) -> Iterator[None]:
        """Switch all approval rules off in rounds after a person's answer.

        This lasts until the end of the ``with`` block.
        """
        is_needed = Approval.is_needed

        def changed(approval: Approval, args: Mapping[str, Any]) -> bool:
            return not self._answered and is_needed(approval, args)

        Approval.is_needed = changed  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Approval.is_needed = is_needed  # type: ignore[method-assign]

    def _watched(self) -> Flow:
        return watched(self._make(), self)

    # Calls from the watched flow and store about the current round.

    def passed(self, place: Place, label: str = "") -> None:
        """Record that the run reached a boundary, and inject the fault if this is its boundary.

        Raises:
            ProcessGone: The fault is a crash. Or the worker is dead already, but the flow caught
                the exception.
            Abandoned: The run took another path before the fault.
        """
        current = self._round
        if current is not None and current.dead:
            self._story.trace.tell(
                "(something caught the death of the process: an `except BaseException`, "
                "or a bare `except`)"
            )
            raise ProcessGone
        if current is not None and place == "point" and current.told_to_stop:
            self._story.went_on.append(label)
            self._tell(f"passed the point {label!r}, though the run was stopped")
        step, attempt, node = (
            (current.step, current.attempt, current.node) if current else self._at()
        )
        self.boundaries.append(Boundary(step, attempt, node, place, label))
        index, fault = len(self.boundaries) - 1, self._fault
        if fault is None or fault.index is None or self._fired:
            return
        if self.boundaries[index] != self._expected[index]:
            actual, expected = self.boundaries[index], self._expected[index]
            raise Abandoned(
                self._another_way(
                    f"it came to {actual.round}, {actual}; the first time it was "
                    f"{expected.round}, {expected}"
                )
            )
        if index == fault.index:
            self._fired = True
            self._story.trace.disturbed = step
            self._strike(fault, self.boundaries[index])

    def began(self, context: RoundContext) -> None:
        """Record the attempt and the node of the round, and pass the boundary ``loaded``."""
        round_ = self._in_hand
        round_.attempt, round_.node = context.attempt, context.node
        self._answered = context.answered
        self._attempts[round_.step] = context.attempt
        self.passed("loaded")

    def called(self, command: Command, key: str) -> None:
        """Record a call of a command, and whether the step has called the command before."""
        round_ = self._in_hand
        earlier = [call for call in self._story.calls_of(command.name) if call.step == round_.step]
        call = Call(
            round_.step,
            round_.attempt,
            round_.node,
            round_.worker,
            command.name,
            copy.deepcopy(dict(command.args)),
            key,
        )
        self._story.calls.append(call)
        round_.calls.append(call)
        again = (
            ""
            if not earlier
            else ", again, with the same key"
            if earlier[-1].key == key
            else f", again, with ANOTHER key ({key})"
        )
        self._tell(f"{called(command.name, command.args)} was called{again}")

    def key_read(self) -> None:
        """Record that the last called command read its idempotency key."""
        if self._in_hand.calls:
            self._in_hand.calls[-1].key_read = True

    def played(self, node: str, outcome: Outcome) -> None:
        """Record a node's outcome, and pass the boundary ``played``."""
        calls = self._in_hand.calls
        self._tell(told_outcome(outcome, calls))
        self.passed("played", label_of(node, outcome, calls))

    def settled(self, kind: str, word: str, detail: str, named: dict[str, Any]) -> None:
        """Record the state server's reply to a commit in the trace, as in ``Observer.settled``."""
        if word == "fenced":
            self._tell("its commit was refused: the round no longer belongs to this worker")
        elif word == "unread":
            self._tell(f"the run does not end: it has not heard {detail}")
        elif word != "ok":
            self._tell(f"its commit was refused: {word} {detail}")
        elif kind in ("failed", "damaged"):
            self._tell(f"the round failed: {named.get('error', '')}")
        elif kind == "park" and detail == "parked":
            self._tell(f"the run is parked: {waits_for(named)}")
        elif detail in ("completed", "stopped", "errored", "interrupted"):
            self._story.trace.tell(f"committed; the run is {detail}")

    # Injection of the faults.

    def _strike(self, fault: Fault, boundary: Boundary) -> None:
        tell = self._story.trace.tell
        worker = f"worker {self._round.worker}" if self._round else ""
        match fault.kind:
            case "crash":
                tell(f"CRASH: {worker} dies {boundary}")
                self._in_hand.dead = True
                raise ProcessGone
            case "delivered twice":
                tell(f"TWICE: the same message is delivered to another worker, {boundary}")
                text = self._in_hand.text
                with self._elsewhere():
                    word = self._deliver(text)
                    tell(f"worker {self._worker} leaves it alone ({word})")
            case "stop" | "stop now":
                mode = "now" if fault.kind == "stop now" else "graceful"
                receipt = self._client.request_stop(
                    self._submission.run_id, mode="now" if mode == "now" else "graceful"
                )
                became = (
                    "it is stopped"
                    if receipt.stopped
                    else "the round may finish"
                    if receipt.running
                    else "the run had ended"
                )
                tell(f"STOP ({mode}) {boundary}: {became}")
                if self._round is not None:
                    self._round.told_to_stop = mode == "now" and receipt.stopped
                    self._round.pulse.beat()
            case "overtaken":
                tell(f"FROZEN: {worker} stands still {boundary}, for longer than its lease")
                with self._elsewhere():
                    self._go_on(lambda: self._overtaken(boundary))
                tell(f"{worker} wakes and goes on")

    def _overtaken(self, boundary: Boundary) -> bool:
        """Return whether other workers have moved the run far enough for the frozen worker to wake.

        This is the case if the run has ended or waits for a person. If the frozen worker had
        already run its node, it is enough that another worker has committed the step.

        Args:
            boundary: The boundary at which the worker froze.
        """
        return self._fields()["phase"] in ("completed", "errored", "interrupted") or (
            boundary.place == "played" and self._at()[0] > boundary.step
        )

    def _another_way(self, how: str) -> NotDeterministic:
        return NotDeterministic(
            f"story {self._story.name!r} of flow {self._submission.name!r} went another way "
            f"before its fault: {how}. Let decisions "
            "depend on nothing but the run: no clock, no randomness, "
            "no outside world that `world` does not create anew"
        )
