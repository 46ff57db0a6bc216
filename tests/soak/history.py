"""History: all that is known of a soak from outside, as frozen data.

Times are seconds of one machine's wall clock.

Who writes what down: the clients each call and its reply (`Call`, `Read`), the runs' event streams
each committed round and each end (`Event`, read after the quiet), the rounds themselves each try
and each effect (`Effect`, in a ledger outside of Redis), the nemesis each fault (`Fault`). The
checker (tests/soak/checker.py) judges it; it sees no server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One operation of a client: submit, stop, stop_now, resume, retry or signal.

    Attributes:
        run: its run; of a submit the id that came back or was asked for.
        asked, answered: when the call began and when it returned.
        outcome: ``acknowledged`` (it returned a reply), ``refused`` (a typed answer: it changed
            nothing), or ``unknown`` (the connection failed: it may or may not have happened).
        reply: the relevant part of the reply: of a stop ``status`` and ``step`` (the committed
            rounds it speaks of).
        key: of a submit, its idempotency key, if it had one; of a signal, its key, which is its
            payload too.
    """

    name: str
    run: str
    asked: float
    answered: float
    outcome: str
    reply: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None


@dataclass(frozen=True)
class Read:
    """One look of a client at a run: the result of `Client.get`.

    ``server`` counts the restarts of the server before it.
    """

    client: str
    run: str
    at: float
    status: str
    epoch: int
    step: int
    server: int = 0


@dataclass(frozen=True)
class Event:
    """One entry of a run's event stream."""

    run: str
    type: str
    at: float
    step: int
    attempt: int
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Effect:
    """A round's effect in the world: it ``tried`` (the round began), and its receiver ``applied``
    it (or knew the key already).
    """

    run: str
    step: int
    attempt: int
    key: str
    what: str
    at: float
    pid: int


@dataclass(frozen=True)
class Fault:
    """One fault that was asked for.

    ``fired`` says that it is known to have happened, ``hit`` whom; ``over`` when it was mended.
    """

    kind: str
    at: float
    fired: bool
    over: float | None = None
    hit: str = ""


@dataclass(frozen=True)
class End:
    """A run as the server held it after the quiet: ``answer`` is the steps that the flow itself
    wrote down, in order.

    ``rounds``: its number without a stop; None: `History.rounds`.
    """

    run: str
    status: str
    epoch: int
    step: int
    answer: Sequence[int] | None
    error: str | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class Child:
    """A child run that the server held after the quiet: its parent, and its place in its group."""

    run: str
    parent: str
    group: str
    place: int


@dataclass(frozen=True)
class Family:
    """A parent, and its answer if it completed.

    Attributes:
        children: the number of its children.
        answers: its children's answers: of each its ``place`` and ``seen``, its steps. None if the
            parent has not completed.
        signal: the payload of the signal that ended its wait.
        again: the payload of a signal that it found after that, or None.
    """

    parent: str
    children: int
    answers: Sequence[Mapping[str, Any]] | None = None
    signal: Any = None
    again: Any = None


@dataclass(frozen=True)
class History:
    """The whole story of one soak.

    Attributes:
        asked_faults: the kinds of fault that were to happen; each must have fired, or the soak
            proves nothing of it.
        rounds: the rounds of a run that was not stopped.
        children: all child runs, found by their hashes, not by their parents' records.
        left: the server's remaining data of runs that are not at rest, by the name of its set.
    """

    calls: Sequence[Call]
    reads: Sequence[Read]
    events: Sequence[Event]
    effects: Sequence[Effect]
    faults: Sequence[Fault]
    ends: Sequence[End]
    asked_faults: frozenset[str]
    rounds: int
    children: Sequence[Child] = ()
    families: Sequence[Family] = ()
    left: Mapping[str, int] = field(default_factory=dict)

    def rounds_of(self, end: End) -> int:
        """Return the number of rounds of a run that is not stopped."""
        return self.rounds if end.rounds is None else end.rounds
