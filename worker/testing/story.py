"""Story: one play of the run, and what became of it; this is what a check is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.event import Event
from worker.run import Run, RunStatus
from worker.testing.trace import Trace


@dataclass
class Call:
    """One call of a command.

    Attributes:
        step, attempt, node: of the round that called it.
        worker: which worker that was; 1 is the first.
        name, args: the command.
        key: the idempotency key that it could use; ``key_read`` says whether it looked at it.
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
    """What an interrupt asks, for ``answers`` to answer."""

    node: str
    step: int
    reason: str
    data: Any = None


@dataclass
class Story:
    """One play of the run.

    Attributes:
        name: what was done to it; give it as ``only`` to play it alone.
        world: what ``world`` made for this story.
        calls: the commands that were called, in order, those of dead and overtaken workers too.
        events: what the run's own log says.
        trace: what happened, line by line; ``str`` of it is text.
        went_on: points that a command passed although it had been told to stop now.
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
        """The run as it ended."""
        assert self.ended is not None, f"story {self.name!r} has not ended"
        return self.ended

    @property
    def status(self) -> RunStatus:
        """How the run ended."""
        return self.run.status

    @property
    def answer(self) -> Any:
        """The run's answer."""
        return self.run.answer

    def calls_of(self, name: str) -> list[Call]:
        """The calls of one command."""
        return [call for call in self.calls if call.name == name]


def called(name: str, args: Mapping[str, Any]) -> str:
    """A command with its arguments, as it would be written."""
    return f"{name}({', '.join(f'{name}={short(value)}' for name, value in args.items())})"


def short(value: Any, length: int = 60) -> str:
    """The repr of a value, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= length else f"{text[: length - 3]}..."
