"""The boundaries of a run, and the injected faults.

``point`` marks a boundary inside a command that has more than one effect on the outside world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

Place = Literal[
    "received", "loaded", "point", "played", "committing", "committed", "asked", "parked"
]
Kind = Literal[
    "crash",
    "delivered twice",
    "stop",
    "stop now",
    "overtaken",
    "moved",
    "signals early",
    "signals twice",
    "rules changed",
]

#: Moments at which each fault can strike. Between "played" and "committing" nothing leaves the
#: process, so only a crash tries both.
PLACES: dict[Kind, tuple[Place, ...]] = {
    "crash": ("received", "loaded", "point", "played", "committing", "committed"),
    "delivered twice": ("loaded", "committed"),
    "stop": ("received", "loaded", "point", "played", "committed", "asked", "parked"),
    "stop now": ("received", "loaded", "point", "played", "committed", "asked", "parked"),
    # At other moments the worker would wake inside a command, where its locks and transactions
    # would block the other worker's.
    "overtaken": ("loaded", "played"),
}

WORDS: dict[Place, str] = {
    "received": "before the claim",
    "loaded": "after loading",
    "point": 'at point "{}"',
    "played": "after {}",
    "committing": "before the commit",
    "committed": "after the commit",
    "asked": "while a person is asked",
    "parked": "while it waits",
}

#: Faults that last through the whole run, and their names.
WHOLE: dict[Kind, str] = {
    "moved": "each round on another worker",
    "rules changed": "each rule of an approval changed once a person has answered",
    "signals early": "each signal before its wait",
    "signals twice": "each signal twice",
}


@dataclass(frozen=True, slots=True)
class Boundary:
    """A moment of a run at which the lab can inject a fault.

    Attributes:
        step, attempt, node: Step, attempt and node of the round.
        place: The kind of moment.
        label: The name of the ``point``, or of the part that ran before the moment.
    """

    step: int
    attempt: int
    node: str
    place: Place
    label: str = ""

    def __str__(self) -> str:
        return WORDS[self.place].format(self.label)

    @property
    def round(self) -> str:
        """The round as text: ``step 3`` or ``step 3, attempt 2``."""
        return (
            f"step {self.step}" if self.attempt < 2 else f"step {self.step}, attempt {self.attempt}"
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that the lab injects at one boundary, or that lasts through the whole run.

    Attributes:
        index: The position of the boundary in the undisturbed run.
        boundary: The boundary. None, like ``index``, for a fault that lasts through the whole run.
    """

    kind: Kind
    index: int | None = None
    boundary: Boundary | None = None

    def __str__(self) -> str:
        if self.boundary is None:
            return WHOLE[self.kind]
        return f"{self.boundary.round}: {self.kind} {self.boundary}"


def faults_at(boundaries: Sequence[Boundary], has_signals: bool = False) -> Iterator[Fault]:
    """Yield every fault for a run with these boundaries.

    Faults that last through the whole run come first, then crashes.

    Args:
        boundaries: The boundaries of the undisturbed run.
        has_signals: Whether the test sends signals to the run.
    """
    yield Fault("moved")
    if any(boundary.place == "asked" for boundary in boundaries):
        yield Fault("rules changed")
    if has_signals:
        yield Fault("signals early")
        yield Fault("signals twice")
    for kind, places in PLACES.items():
        for index, boundary in enumerate(boundaries):
            if boundary.place in places:
                yield Fault(kind, index, boundary)


#: Function that is called at each point: the current story's. None outside of a lab.
watching: ContextVar[Callable[[str], None] | None] = ContextVar("perdure_lab", default=None)


def point(name: str) -> None:
    """Mark a boundary inside a command.

    The crash lab can inject a fault there. Outside of a lab the call does nothing. Call it from the
    fake outside world, after each effect: ``point("charged")``.
    """
    notify = watching.get()
    if notify is not None:
        notify(name)
