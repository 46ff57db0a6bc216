"""The fields of a RoundContext, and the properties and reports that do not wait."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic

from typing_extensions import TypeVar

from perdure.flows.core.budgets import Budget
from perdure.flows.core.cancellation import Signals
from perdure.flows.core.errors import (
    InvalidFlow,
    RoundStopped,
    UnstorableValue,
)
from perdure.flows.core.files import (
    File,
    FileReference,
)
from perdure.flows.core.history import EMPTY_HISTORY, History, forgotten_of
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.live_text import NOT_WATCHED, LiveText
from perdure.flows.core.names import OPEN_ASKS, REMARKS
from perdure.flows.core.outcomes import ASK, SAY, Command, Turn
from perdure.flows.core.process_cache import NOTHING_KEPT, Kept
from perdure.flows.core.retry import Retry
from perdure.flows.core.round_journal import Journal
from perdure.flows.core.thread_messages import NOTHING_EARLIER, Earlier, ThreadMessage
from perdure.flows.rounds.notes import NO_NOTES, NoteAccess
from perdure.flows.rounds.providers import ALL_MAY_ASK, Endpoint, Providers
from perdure.flows.rounds.waits import Mailbox


def _no_retry(error: BaseException, own: Retry | None = None) -> bool:
    return False


#: Maximum characters of a progress text. It travels with every heartbeat.
PROGRESS_LENGTH = 200


def _no_artifact(name: str) -> str:
    raise KeyError(name)


#: The type of the value that the flow's lifespan yields.
Deps = TypeVar("Deps", default=Any)


class _NoDeps:
    """The value of ``context.deps`` in a flow without a lifespan.

    Access to an attribute raises InvalidFlow, which explains this.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidFlow(
            f"context.deps.{name}: this flow has no lifespan, so it has no deps. Set lifespan of "
            "the flow to what @lifespan has made"
        )


NO_DEPS: Any = _NoDeps()


@dataclass(frozen=True, slots=True)
class RoundPart:
    """A concurrent part of a round, with its own span.

    Attributes:
        name: the name of the span.
        attributes: the span's attributes, as in ``RoundContext.traced``.
        began, ended: in nanoseconds since 1970.
        error: the class of the exception that it raised, or an empty text.
    """

    name: str
    attributes: Mapping[str, str | int | tuple[str, ...]]
    began: int
    ended: int
    error: str = ""


@dataclass(frozen=True)
class RoundFacts(Generic[Deps]):
    """The fields of a round's context, and its reports. ``RoundContext`` describes the fields."""

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
    sandbox: str | None = None
    endpoint: Endpoint = field(default_factory=Endpoint)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    traced: dict[str, str | int | tuple[str, ...]] = field(default_factory=dict)
    traces_content: bool = False
    parts: list[RoundPart] = field(default_factory=list)
    journal: Journal = field(default_factory=Journal)
    mailbox: Mailbox = field(default_factory=Mailbox)
    artifact: Callable[[str], str] = _no_artifact
    commands: Sequence[Mapping[str, Any]] = ()
    node_goal: str = ""
    whole: History | None = None
    providers: Providers = ALL_MAY_ASK
    retried: str = ""
    may_retry: Callable[..., bool] = _no_retry
    kept: Kept = NOTHING_KEPT
    live_text: LiveText = NOT_WATCHED
    earlier: Earlier = NOTHING_EARLIER
    note_access: NoteAccess = NO_NOTES
    model: str | None = None
    files: tuple[FileReference, ...] = ()
    attached: dict[str, File] = field(default_factory=dict)
    attaching: list[str] = field(default_factory=list)
    scope: str = ""
    origins: Sequence[tuple[str, int]] = ()
    key_salt: str = ""
    build: str = ""
    deps: Deps = NO_DEPS
    logger: logging.Logger | logging.LoggerAdapter[logging.Logger] = field(
        default_factory=lambda: logging.getLogger("perdure.flow")
    )

    @property
    def values(self) -> Mapping[str, Any]:
        """The committed values, overridden by values remembered in this round."""
        return MappingProxyType({**self.committed, **self.remembered})

    def remember(self, name: str, value: Any) -> None:
        """Store a small JSON value in the run. This round's commit stores it under the name.

        Raises:
            UnstorableValue: the value would not read back equal, or the flow reserves the name.
        """
        if name.startswith("_"):
            raise UnstorableValue(
                f"{name!r} cannot be remembered: names that begin with '_' are reserved for "
                "the flow"
            )
        if name in self.reserved:
            own = ", ".join(sorted(self.reserved))
            raise UnstorableValue(
                f"{name!r} cannot be remembered: the flow itself writes {own} and would "
                "overwrite it. Use another name"
            )
        self.remembered[name] = storable(value, f"the value remembered as {name!r}")

    @property
    def observation(self) -> Any:
        """The observation of the last command in the run's history.

        After a bad reply of the controller, it is the fault of the reply. None before the first
        turn. Messages from people are skipped (``Turn.said``).
        """
        for place in range(len(self.history) - 1, forgotten_of(self.history) - 1, -1):
            turn = self.history[place]
            if turn.said is None:
                return turn.observation
        return None

    @property
    def said(self) -> list[Any]:
        """The messages from people that the controller has read, oldest first.

        ``history`` has them too if the controller reads errors, as a model does. Turns removed from
        the history are missing here too (``keep_turns``, ``Renew``).
        """
        return [turn.observation[SAY] for turn in self._remarks() if SAY in turn.observation]

    @property
    def conversation(self) -> list[ThreadMessage]:
        """The messages of earlier runs in the thread (``Client.send``), oldest first.

        They are the newest, at most 100 messages and 60,000 characters. They stay the same for the
        whole run. The first run of a thread has none, nor has a run without a thread.
        """
        return self.earlier.read()

    @property
    def questions(self) -> list[Any]:
        """The open questions of people to the run, oldest first."""
        open_asks = self.committed.get(OPEN_ASKS, ())
        return [
            turn.observation[ASK]
            for turn in self._remarks()
            if ASK in turn.observation and turn.observation["number"] in open_asks
        ]

    def _remarks(self) -> list[Turn]:
        whole = self.history if self.whole is None else self.whole
        gone = forgotten_of(whole)
        turns = (whole[place] for place in self.committed.get(REMARKS, ()) if place >= gone)
        return [turn for turn in turns if turn.said is not None]

    @property
    def idempotency_key(self) -> str:
        """The idempotency key of the current command, else of the round.

        It is ``run_id:step:digest of command and arguments``. Every attempt of this round has the
        same key. If the caller chose the run's id, ``key_salt`` and a colon stand before the step.
        """
        return self.key_of(self.command)

    def key_of(self, command: Command | None) -> str:
        """Return the idempotency key of a command, or of the round if ``command`` is None."""
        subject = (
            {"command": command.name, "args": dict(command.args)}
            if command
            else {"node": self.node}
        )
        digest = hashlib.sha256(canonical(subject).encode()).hexdigest()[:16]
        salt = f"{self.key_salt}:" if self.key_salt else ""
        return f"{self.run_id}:{salt}{self.step}:{digest}"

    @property
    def cancelled(self) -> threading.Event:
        """The event that is set when this round is cancelled.

        A round is cancelled when its lease is lost or its time limit is over.
        """
        return self.signals.cancelled

    @property
    def stop_requested(self) -> bool:
        """Whether the run is being stopped or this round was cancelled.

        After a request to stop, the round in flight may still finish.
        """
        return self.signals.stop_requested or self.signals.is_cancelled

    def raise_if_stopped(self) -> None:
        """Raise RoundStopped if ``stop_requested`` is true."""
        if self.stop_requested:
            raise RoundStopped(
                f"run {self.run_id}, step {self.step}: a stop was requested or the round was "
                "cancelled"
            )

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report the progress of this round to ``show``, ``watch`` and the dashboard.

        The report travels with the next heartbeat and costs no request. The text is cut to
        ``PROGRESS_LENGTH`` characters.

        Raises:
            UnstorableValue: ``done`` or ``total`` is not a number.
        """
        report = storable(
            {"done": done, "total": total, "text": str(text)[:PROGRESS_LENGTH]}, "the progress"
        )
        for name in ("done", "total"):
            if not isinstance(report[name], int | float | None):
                raise UnstorableValue(
                    f"context.progress(done, total, text) expects a number as {name}, "
                    f"got {report[name]!r}"
                )
        self.signals.progress = report

    def stream(self, text: str, kind: str = "text", part: str = "") -> None:
        """Show a piece of text at once to people who watch the run.

        It costs no request, and is not stored with the run. See ``Client.stream``.

        Args:
            kind: ``text``, ``thinking``, or a word of your own.
            part: separates texts that arrive at the same time.
        """
        self.live_text.write(str(text), kind, part)

    def spend(self, **amounts: float) -> None:
        """Charge this round's usage (``tokens``, ``money``, ...) to the run's budgets.

        Several calls add up. A name that is not a budget (``input_tokens``) is kept in the totals
        too.
        """
        for name, amount in amounts.items():
            self.spent[name] = self.spent.get(name, 0) + amount

    def tell(self, **facts: Any) -> None:
        """Add facts (``model="gpt-5"``) to this round's event. People who watch the run see them.

        The flow never reads them back.
        """
        self.told.update(
            {
                name: storable(value, f"the fact {name!r} in context.tell")
                for name, value in facts.items()
            }
        )
