"""What a node sees of its run while it plays one round."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, overload

from flows.budgets import Budget
from flows.definition import is_name
from flows.endpoint import Endpoint
from flows.errors import InvalidFlow, RoundStopped, UnstorableValue
from flows.journal import Journal
from flows.outcomes import Command, Turn
from flows.providers import ALL_MAY_ASK, Providers
from flows.values import canonical, storable

#: Characters of a progress text that are kept; it travels with every heartbeat.
PROGRESS_LENGTH = 200
#: Older turns that are read together, where they are not asked for as a slice.
AT_ONCE = 100


class History(Sequence[Turn]):
    """The turns of a run, oldest first; the newest came with the claim, older ones are read on demand.

    Args:
        length: number of turns committed.
        newest: the last ``len(newest)`` of them.
        load: reads turns ``[start, stop)``. A slice reads what it lacks and no more; a turn by its number, or a walk through
            all of them, reads ``AT_ONCE`` at a time.
    """

    def __init__(self, length: int, newest: Sequence[Turn], load: Callable[[int, int], Sequence[Turn]]) -> None:
        self._length = length
        self._load = load
        before = length - len(newest)
        self._turns = {before + place: turn for place, turn in enumerate(newest)}

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | list[Turn]:
        if isinstance(index, slice):
            wanted = range(*index.indices(self._length))
            missing = [number for number in wanted if number not in self._turns]
            if missing:
                self._read(min(missing), max(missing) + 1)
            return [self._turns[number] for number in wanted]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"the history has {self._length} turns, there is no turn {index}")
        if index not in self._turns:
            start = index - index % AT_ONCE
            self._read(start, min(start + AT_ONCE, self._length))
        return self._turns[index]

    def __iter__(self) -> Iterator[Turn]:
        return (self[number] for number in range(self._length))

    def _read(self, start: int, stop: int) -> None:
        for number, turn in enumerate(self._load(start, stop), start):
            self._turns.setdefault(number, turn)


#: Of two threads that ask for a round's cancel token first, both get the same.
_making = threading.Lock()
EMPTY_HISTORY = History(0, (), lambda start, stop: [])


def _no_artifact(name: str) -> str:
    raise KeyError(name)


@dataclass
class Signals:
    """What reaches a round from outside while it runs; set by the heartbeat, read by the round."""

    stop_requested: bool = False
    progress: Mapping[str, Any] | None = None
    _cancelled: threading.Event | None = None

    @property
    def cancelled(self) -> threading.Event:
        """Made when somebody asks for it: it takes longer than most that a round needs, and most rounds are over before."""
        if self._cancelled is None:
            with _making:
                self._cancelled = self._cancelled or threading.Event()
        return self._cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether ``cancelled`` is set."""
        return self._cancelled is not None and self._cancelled.is_set()


@dataclass(frozen=True)
class RoundContext:
    """What a node sees of its run.

    Attributes:
        goal: the goal as submitted.
        inputs: the inputs as submitted, after validation.
        run_id, node, step, attempt: which try of which round this is; ``attempt`` is 1 at first and
            never restarts within a step.
        history: the turns so far, lazily loaded.
        values: the named values committed so far, with those remembered in this round.
        answer: what ``resume`` gave to this node's interrupt, else None. ``answered`` tells a None
            that a person gave from no answer at all.
        answered_by: who gave ``answer``; None where that is not known.
        command: the command that is being carried out, in a command; else None.
        reserved: names that the flow itself writes; they cannot be remembered.
        asked: the data of the interrupt that ``answer`` answers; None where there is none.
        workspace: the directory that the worker lets commands read and write; None for none.
        endpoint: where this worker's models are.
        budgets: what the run may spend, and has spent before this round, by name.
        spent, told: what this round says of itself; see ``spend`` and ``tell``.
        traced: what its span says beside, by the names of OpenTelemetry's conventions; never what was asked, answered or given.
        journal: what is written down before the commit; see ``once``.
        artifact: reads an artifact of the run by name; raises KeyError where there is none.
        commands: in a controller's round: what it may choose from, ``finish`` included, as models are told of tools (``name``,
            ``description``, ``parameters``).
        node_goal: what the flow says that this node is for; empty where it says nothing.
        providers: whether this round may ask a provider that is busy or away; see ``flows.providers``.
    """

    goal: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    run_id: str = "run"
    node: str = ""
    step: int = 0
    attempt: int = 1
    history: Sequence[Turn] = EMPTY_HISTORY
    committed: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = None
    answered: bool = False
    answered_by: str | None = None
    command: Command | None = None
    signals: Signals = field(default_factory=Signals)
    remembered: dict[str, Any] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()
    asked: Any = None
    workspace: str | None = None
    endpoint: Endpoint = field(default_factory=Endpoint)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    traced: dict[str, str | int] = field(default_factory=dict)
    journal: Journal = field(default_factory=Journal)
    artifact: Callable[[str], str] = _no_artifact
    commands: Sequence[Mapping[str, Any]] = ()
    node_goal: str = ""
    providers: Providers = ALL_MAY_ASK
    logger: logging.Logger | logging.LoggerAdapter[logging.Logger] = field(default_factory=lambda: logging.getLogger("holdfast.flow"))

    @property
    def values(self) -> Mapping[str, Any]:
        """The named values: those committed, and over them those remembered in this round."""
        return MappingProxyType({**self.committed, **self.remembered})

    def remember(self, name: str, value: Any) -> None:
        """Write a small named JSON value with this round's commit; raises UnstorableValue at once if it would not read back."""
        if name.startswith("_"):
            raise UnstorableValue(f"{name!r} cannot be remembered: names that begin with '_' are the flow's own")
        if name in self.reserved:
            own = ", ".join(sorted(self.reserved))
            raise UnstorableValue(f"{name!r} cannot be remembered: the flow itself writes {own}, and would overwrite it; take another name")
        self.remembered[name] = storable(value, f"the value remembered as {name!r}")

    @property
    def observation(self) -> Any:
        """What the last turn observed; None before the first."""
        return self.history[-1].observation if len(self.history) else None

    @property
    def idempotency_key(self) -> str:
        """``run_id:step:digest of command and arguments``, the same on every attempt of this round."""
        return self.key_of(self.command)

    def key_of(self, command: Command | None) -> str:
        """The idempotency key of ``command`` in this round; None: of the round itself."""
        subject = {"command": command.name, "args": dict(command.args)} if command else {"node": self.node}
        digest = hashlib.sha256(canonical(subject).encode()).hexdigest()[:16]
        return f"{self.run_id}:{self.step}:{digest}"

    @property
    def cancelled(self) -> threading.Event:
        """Set when this round's result is no longer wanted: its lease is gone, or its time is over."""
        return self.signals.cancelled

    @property
    def stop_requested(self) -> bool:
        """Whether somebody asked the run to stop (the round in flight may still finish)."""
        return self.signals.stop_requested or self.signals.is_cancelled

    def raise_if_stopped(self) -> None:
        """Leave the round here if a stop was asked or the round was cancelled; raises RoundStopped."""
        if self.stop_requested:
            raise RoundStopped(f"run {self.run_id}, step {self.step}: a stop was requested, this round's result is not wanted")

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report how far this round is, for ``show``, ``watch`` and the dashboard. It travels with the next heartbeat and costs nothing.

        The text is cut to ``PROGRESS_LENGTH`` characters. Raises UnstorableValue where ``done`` or ``total`` is no number.
        """
        told = storable({"done": done, "total": total, "text": str(text)[:PROGRESS_LENGTH]}, "the progress")
        for name in ("done", "total"):
            if not isinstance(told[name], int | float | None):
                raise UnstorableValue(f"context.progress(done, total, text) expects a number as {name}, it got {told[name]!r}")
        self.signals.progress = told

    def spend(self, **amounts: float) -> None:
        """Charge the run's budgets (``tokens``, ``money``, ...) for what this round used; called again, it adds up.

        What is not a budget's name (``input_tokens``) is kept in the totals all the same.
        """
        for name, amount in amounts.items():
            self.spent[name] = self.spent.get(name, 0) + amount

    def tell(self, **facts: Any) -> None:
        """Say something of this round to those who watch (``model="gpt-5"``): it goes into the round's event, and is never read back."""
        self.told.update({name: storable(value, f"what is told as {name!r}") for name, value in facts.items()})

    def once(self, name: str, function: Callable[[], Any]) -> Any:
        """The result of ``function()``, called at most once in this step if its result could be recorded.

        The result is recorded as soon as it is known, so that a later attempt of this round gets it without a call; the first
        recorded result wins. Between the call and the record a worker can die: give ``idempotency_key`` to a receiver that honours it.

        Args:
            name: of the effect; letters, digits, '_', '.' or '-'.
            function: returns JSON data.

        Raises:
            UnstorableValue: the result is no JSON. RoundStopped: the run has left this step.
        """
        if not is_name(name):
            raise InvalidFlow(f"once({name!r}, ...): expected a name of letters, digits, '_', '.' or '-', at most 100")
        text = self.journal.recorded.get(name)
        if text is None:
            text = self.journal.record(name, canonical(storable(function(), f"the result recorded as {name!r}")))
        return json.loads(text)

    def carrying_out(self, command: Command) -> RoundContext:
        """The same round seen from inside ``command``: its idempotency key names the command."""
        return altered(self, command=command)


def made(fields: dict[str, Any], kind: type[RoundContext] = RoundContext) -> RoundContext:
    """``RoundContext(**fields)``, in a fifth of its time: that sets the many fields of a frozen object one by one.

    Args:
        fields: all but those whose default is a plain one; the context keeps this very dict.
    """
    context = object.__new__(kind)
    object.__setattr__(context, "__dict__", fields)
    return context


def altered(context: RoundContext, **fields: Any) -> RoundContext:
    """``dataclasses.replace``, in a tenth of its time."""
    return made({**vars(context), **fields}, type(context))
