"""Stories: executions of a run, each with at most one fault, its result and its trace.

Checks receive the story. Its trace lists the events of the run for people, line by line, with the
results of rounds and sweeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perdure.flows.core.outcomes import End, Interrupt, Outcome, Renew
from perdure.worker.domain.event import Event
from perdure.worker.domain.run import Run, RunStatus

#: Rounds before the fault that are shown. Earlier ones went as usual.
ROUNDS_BEFORE = 2


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One line of a trace.

    Attributes:
        step, node, attempt: Those of the round. ``step`` is None for an event between rounds.
        times: How often the line occurred in succession.
    """

    text: str
    step: int | None = None
    node: str = ""
    attempt: int = 1
    times: int = 1

    def __str__(self) -> str:
        return self.text if self.times == 1 else f"{self.text} ({self.times} times)"


@dataclass
class Trace:
    """The trace of a story.

    Attributes:
        disturbed: The step at which the fault was injected. None if no fault was injected.
    """

    lines: list[TraceLine] = field(default_factory=list)
    disturbed: int | None = None

    def tell(self, text: str, step: int | None = None, node: str = "", attempt: int = 1) -> None:
        """Add a line to the trace.

        If the line is equal to the last line, only the count of the last line is increased.
        """
        line = TraceLine(text, step, node, attempt)
        if self.lines and replace(self.lines[-1], times=1) == line:
            self.lines[-1] = replace(line, times=self.lines[-1].times + 1)
        else:
            self.lines.append(line)

    def __len__(self) -> int:
        return len(self.lines)

    def __str__(self) -> str:
        first = max(0, (self.disturbed or 0) - ROUNDS_BEFORE)
        start = next(
            (
                place
                for place, line in enumerate(self.lines)
                if line.step is not None and line.step >= first
            ),
            0,
        )
        shown = self.lines[start:]
        width = max((len(line.node) for line in shown), default=0)
        texts = [f"steps 0 to {first - 1} as always"] if start else []
        for line in shown:
            if line.step is None:
                texts.append(f"        {line}")
            else:
                again = f"attempt {line.attempt}: " if line.attempt > 1 else ""
                texts.append(f"step {line.step:<2} {line.node:<{width}}  {again}{line}")
        return "\n".join(texts)


@dataclass
class Call:
    """One call of a command.

    Attributes:
        step, attempt, node: Step, attempt and node of the round that called the command.
        worker: Number of the calling worker, from 1.
        name, args: The command's name and arguments.
        key: Idempotency key of the command. ``key_read`` says whether the command read it.
    """

    step: int
    attempt: int
    node: str
    worker: int
    name: str
    args: Mapping[str, Any]
    key: str
    key_read: bool = False

    def __str__(self) -> str:
        return called(self.name, self.args)


@dataclass(frozen=True)
class Question:
    """An interrupt, for ``answers`` to answer.

    Attributes:
        node, step: Node and step of the round that asks.
        reason, data: As the node passed them to ``Interrupt``.
    """

    node: str
    step: int
    reason: str
    data: Any = None


@dataclass
class Story:
    """One execution of the run, undisturbed or under one fault.

    Attributes:
        name: The injected fault. Pass this text as ``only`` to run this story alone.
        world: The outside world of this story: a result of the lab's argument ``world``.
        calls: Calls of commands in order, including those of dead and overtaken workers.
        events: The run's own events.
        trace: The events, line by line. ``str(trace)`` is text.
        went_on: Points that a command passed after a stop with mode ``now``.
        ended: The run at its end. None while the story runs.
    """

    name: str
    world: Any = None
    calls: list[Call] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)
    went_on: list[str] = field(default_factory=list)
    ended: Run | None = None

    @property
    def run(self) -> Run:
        """The run of the story, at its end."""
        assert self.ended is not None, f"story {self.name!r} has not ended"
        return self.ended

    @property
    def status(self) -> RunStatus:
        """The final status of the story's run."""
        return self.run.status

    @property
    def answer(self) -> Any:
        """The final answer of the story's run."""
        return self.run.answer

    def calls_of(self, name: str) -> list[Call]:
        """Return the recorded calls of the command ``name``."""
        return [call for call in self.calls if call.name == name]


def called(name: str, args: Mapping[str, Any]) -> str:
    """Return the call of a command as text: ``charge(amount=12)``."""
    return f"{name}({', '.join(f'{name}={short(value)}' for name, value in args.items())})"


def short(value: Any, length: int = 60) -> str:
    """Return a value's repr, cut to at most ``length`` characters."""
    text = repr(value)
    return text if len(text) <= length else f"{text[: length - 3]}..."


#: Meaning of the sweep's replies. Any other reply is routine.
swept = {
    "freed": "the lease lapsed; the sweep queued the round again",
    "delayed": "the lease lapsed again; the sweep will queue the round after a wait",
    "stopped": "the lease lapsed; the sweep stopped the run, as was asked for",
    "resent": "the message was lost; the sweep sent it again",
    "woken": "its time came; the sweep queued the round",
    "answered": "the deadline passed; the sweep answered with the default",
    "errored": "the sweep ended the run as errored",
    "damaged": "the run is damaged; the sweep looks at it no more",
}


def told_outcome(outcome: Outcome, calls: Sequence[Call]) -> str:
    """Return a round's outcome as text for the trace.

    For example, the text has the result of the last command, or the run's answer.

    Args:
        calls: The calls of commands in the round.
    """
    if isinstance(outcome, Interrupt):
        return f"asks a person: {outcome.reason}"
    if isinstance(outcome, Renew):
        return "renews the run"
    gave = (
        f"{calls[-1].name} gave {short(outcome.turns[-1].observation)}"
        if calls and outcome.turns
        else ""
    )
    if isinstance(outcome, End):
        return f"{gave}{', and ' if gave else ''}ends the run with {short(outcome.answer)}"
    if gave:
        return gave
    if "command" in outcome.values and not calls:
        return (
            f"decides {called(outcome.values['command'], outcome.values.get('command_args', {}))}"
        )
    shown = {name: value for name, value in outcome.values.items() if not name.startswith("_")}
    return f"is done, and returns {short(shown)}" if shown else "is done"


def waits_for(options: Mapping[str, Any]) -> str:
    """Return the reason why a run is parked, as text for the trace.

    Args:
        options: The options of the commit that parks the run.
    """
    names = [line.partition(" ")[0] for line in str(options.get("wait_for", "")).splitlines()]
    if any(name.startswith(":") for name in names):
        return "it waits for its child runs"
    seconds = options.get("wait_ms")
    time = "" if seconds is None else f"{int(seconds) / 1000:g} s"
    if not names:
        return f"it sleeps for {time}"
    return f"it waits for the signal {' or '.join(names)}{time and f', at most {time}'}"


def label_of(node: str, outcome: Outcome, calls: Sequence[Call]) -> str:
    """Return a name for the part of a round that ran. In the trace it follows the word ``after``.

    Args:
        calls: The calls of commands in the round.
    """
    if calls:
        return calls[-1].name
    if isinstance(outcome, Interrupt):
        return f"{node} asked"
    if isinstance(outcome, End):
        return f"{node} ended the run"
    if isinstance(outcome, Renew):
        return f"{node} renewed the run"
    return f"deciding {outcome.values['command']}" if "command" in outcome.values else node
