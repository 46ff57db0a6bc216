"""Boundaries of a run, and the faults that are put there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Place = Literal["received", "loaded", "point", "played", "committing", "committed", "asked"]
Kind = Literal["crash", "delivered twice", "stop", "stop now", "overtaken", "moved"]

#: Where each fault can strike. Between "played" and "committing" nothing leaves the process, so only a crash tries both.
PLACES: dict[Kind, tuple[Place, ...]] = {
    "crash": ("received", "loaded", "point", "played", "committing", "committed"),
    "delivered twice": ("loaded", "committed"),
    "stop": ("received", "loaded", "point", "played", "committed", "asked"),
    "stop now": ("received", "loaded", "point", "played", "committed", "asked"),
    # Elsewhere the worker would wake inside a command, and its locks and transactions would be in the other one's way.
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
}


@dataclass(frozen=True, slots=True)
class Boundary:
    """A moment of a run between two of its parts.

    Attributes:
        step, attempt, node: of the round.
        place: which moment of it.
        label: the point's name, or what was played.
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
        """The round, as stories name it."""
        return f"step {self.step}" if self.attempt < 2 else f"step {self.step}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at one boundary; ``index`` is its place among those of the undisturbed run (none: all through the run)."""

    kind: Kind
    index: int | None = None
    boundary: Boundary | None = None

    def __str__(self) -> str:
        if self.boundary is None:
            return "each round on another worker"
        return f"{self.boundary.round}: {self.kind} {self.boundary}"


def faults_at(boundaries: Sequence[Boundary]) -> Iterator[Fault]:
    """Every fault that can strike a run with these boundaries; those that users meet most come first."""
    yield Fault("moved")
    for kind, places in PLACES.items():
        for index, boundary in enumerate(boundaries):
            if boundary.place in places:
                yield Fault(kind, index, boundary)
