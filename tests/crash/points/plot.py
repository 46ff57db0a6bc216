"""The events of a story: its flow, the wishes of its person, and the receiver of its effects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from perdure import (
    Child,
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    FatalError,
    Finish,
    Interrupt,
    Node,
    Renew,
    RetryableError,
    RoundContext,
    command,
    register,
)
from perdure.flows.core.outcomes import Advance, Outcome
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.domain.stop import StopMode, StopReceipt

if TYPE_CHECKING:
    from tests.crash.points.process import ClientProcess
    from tests.crash.points.story import Story

FLOW = "crash-points"
YES = "yes"
PAID = "paid in full"
#: How long the run sleeps (s), and the signal that it waits for.
NAP, SIGNAL = 3, "paid"
#: The flow of its children, and how many there are.
CHILD, CHILDREN = "crash-points-child", 2


@dataclass(frozen=True)
class Plot:
    """The course of a run.

    Effects are counted from 0; the executor's round of effect n is step 2n + 1.

    Attributes:
        effects: how many there are; the controller's round behind the last one ends the run.
        asks: the effect before which a person is asked.
        breaks: the effect whose service is broken (the run ends errored) until the person mends it
            and retries the run.
        hiccups: the effect whose first attempt fails and is tried again by itself.
        stops: the step in the middle of whose round the run is stopped, and how. It is resumed.
        naps: the effect before which the run sleeps.
        awaits: the effect before which it waits for a signal, which a person sends when it waits.
        halts: the effect in whose wait the run is stopped. It is resumed.
        bears: the effect before which it starts two children, one at a time, and waits for them.
        renews: the effect whose round renews the run. Only its own turn stays in the history.
        doubled: whether the run's first message stands in line twice.
    """

    name: str
    effects: int
    asks: int | None = None
    breaks: int | None = None
    hiccups: int | None = None
    stops: tuple[int, StopMode] | None = None
    naps: int | None = None
    awaits: int | None = None
    halts: int | None = None
    bears: int | None = None
    renews: int | None = None
    doubled: bool = False

    @property
    def children(self) -> int:
        """The number of child runs, of one round each."""
        return 0 if self.bears is None else CHILDREN

    @property
    def steps(self) -> int:
        return 2 * self.effects + 1

    @property
    def answer(self) -> list[Any]:
        heard = {
            self.asks: YES,
            self.awaits: PAID,
            self.bears: [f"child {n}" for n in range(CHILDREN)],
        }
        return [[n, heard.get(n)] for n in range(self.forgotten, self.effects)]

    @property
    def forgotten(self) -> int:
        """The number of its oldest turns gone at the end."""
        return 0 if self.renews is None else self.renews

    @property
    def is_stopped(self) -> bool:
        """Whether a person stops the run."""
        return self.stops is not None or self.halts is not None

    @property
    def attempts(self) -> dict[int, int]:
        """Claims that each step takes where nothing goes wrong beyond the plot."""
        taken = Counter(range(self.steps))
        again = (
            self.asks,
            self.breaks,
            self.hiccups,
            self.naps,
            self.awaits,
            self.bears,
            self.halts,
        )
        taken.update(2 * n + 1 for n in again if n is not None)
        if self.stops is not None and self.stops[1] == "now":
            taken[self.stops[0]] += 1
        return dict(taken)


@dataclass
class Receiver:
    """The service outside of Redis: carries a key's effect out once, and counts the requests for
    it.
    """

    tried: list[str] = field(default_factory=list)
    applied: dict[str, Any] = field(default_factory=dict)

    def apply(self, key: str, effect: Any) -> None:
        self.tried.append(key)
        self.applied.setdefault(key, effect)


@register(FLOW)
class PlottedFlow(ControllerExecutorFlow):
    """Plays the plot of the story that is on stage; every line of an author's code has a boundary before and behind it."""

    max_rounds = None
    stage: Story | None = None

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Play a round; where the plot renews the run, each effect leaves a value of its own."""
        outcome = super().play(node, context)
        renews, number = on_stage().plot.renews, len(context.history)
        if renews is None or node != "Executor" or not isinstance(outcome, Advance):
            return outcome
        value = {value_of(number): number}
        if number == renews:
            return Renew(values=value, keep_turns=1, turns=outcome.turns)
        return replace(outcome, values={**outcome.values, **value})

    def decide(self, context: RoundContext) -> Command | Finish:
        story = on_stage()
        story.boundary("before decide")
        story.stop_if_wanted(context)
        done = len(context.history)
        if done == story.plot.effects:
            decision: Command | Finish = Finish([turn.observation for turn in context.history])
        else:
            decision = Command("effect", {"number": done})
        story.boundary("behind decide")
        return decision

    @command(idempotent=True)
    def effect(self, number: int, context: RoundContext) -> Any:
        """Does something to the world."""
        story = on_stage()
        plot = story.plot
        story.boundary("before the effect")
        if number == plot.asks and not context.answered:
            return Interrupt("may I?")
        if number == plot.breaks and not story.person.mended:
            raise FatalError("the service is broken")
        if number == plot.hiccups and context.attempt == 1:
            raise RetryableError("the service is busy")
        if number == plot.naps:
            context.sleep(NAP)
        signal = context.wait_for(SIGNAL) if number == plot.awaits else None
        children = self.children(context) if number == plot.bears else None
        story.worker_beats()
        story.receiver.apply(story.key_of(context), number)
        story.boundary("behind the effect")
        story.stop_if_wanted(context)
        if children is not None:
            return [number, children]
        return [number, context.answer if signal is None else signal.payload]

    def children(self, context: RoundContext) -> list[Any]:
        """Run children, and return their answers."""
        each = [Child(CHILD, f"child {number}") for number in range(CHILDREN)]
        return context.gather(each, wait="settled", max_concurrency=1).answers


@register(CHILD)
class PlottedChild(CircularFlow):
    """Does one thing to the world."""

    topology = (Node("Work", "work"),)

    def work(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        story = on_stage()
        story.boundary("before the child's effect")
        story.worker_beats()
        story.receiver.apply(f"of {story.key_of(context)}", context.goal)
        context.spend(tokens=7, money=0.1)
        story.boundary("behind the effect")
        return {self.early_exit_key: True, "answer": context.goal, "status": "finished"}


def on_stage() -> Story:
    """Return the story that is being played."""
    assert PlottedFlow.stage is not None, "no story is on stage"
    return PlottedFlow.stage


def value_of(number: int) -> str:
    """Return the name of the value that an effect leaves in a run that is renewed."""
    return f"of effect {number}"


class Person:
    """Who submits the run, answers it, stops it, resumes and retries it; outlives every client
    process.

    A person acts on the visible state, and repeats an act that got no answer; each call is a
    separate act.
    """

    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self.run_id: str | None = None
        self.mended = self.tried_to_stop = self.signalled = False
        self.receipt: StopReceipt | None = None
        self.end: Run | None = None

    @property
    def wants(self) -> bool:
        """Whether there is something to do before anything else: the run is not submitted, or a
        stop was not acknowledged.
        """
        return self.run_id is None or (self.tried_to_stop and self.receipt is None)

    def sees_wait(self, phase: str | None, step: str | None) -> bool:
        """Return whether the run waits for this person: to be stopped, or for a signal."""
        if phase != "parked" or step is None:
            return False
        effect = int(step) // 2
        if effect == self.plot.halts and self.receipt is None:
            self.tried_to_stop = True
        return self.wants or (effect == self.plot.awaits and not self.signalled)

    def act(self, process: ClientProcess) -> None:
        client, tell = process.client, process.story.tell
        if self.run_id is None:
            self.run_id = client.submit(FLOW, "goal", idempotency_key="the-key").id
            return
        if self.tried_to_stop and self.receipt is None:
            mode = "graceful" if self.plot.stops is None else self.plot.stops[1]
            self.receipt = client.request_stop(self.run_id, mode)
            process.story.wire.moment += 1
            tell("stop acknowledged", stopped=self.receipt.stopped, step=self.receipt.step)
            return
        run = client.get(self.run_id)
        match run.status:
            case RunStatus.INTERRUPTED:
                client.resume(self.run_id, YES)
            case RunStatus.STOPPED:
                tell("resuming")
                client.resume(self.run_id)
            case RunStatus.ERRORED:
                self.mended = True
                client.retry(self.run_id)
            case RunStatus.COMPLETED:
                self.end = run
            case RunStatus.RUNNING:
                client.signal(self.run_id, SIGNAL, PAID, key="the-event")
                self.signalled = True
