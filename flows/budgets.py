"""Budgets: what a run may spend, and what it has spent."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flows.definition import is_name, known
from flows.errors import InvalidInput

#: What can be limited, and in what it is counted. ``commands.NAME`` limits how often one command is carried out.
KINDS = {
    "cycles": "passes of controller and executor",
    "tokens": "tokens that models read and wrote",
    "money": "US dollars, by the price list of the model library",
    "seconds": "seconds of wall time, without those that the run waited for a person",
}
COMMANDS = "commands."
#: No limit is higher: beyond it floats no longer count one by one, and what is meant is no limit at all.
MOST = 1e15
#: From this share of a limit on, the controller is told to wrap up.
SOFT = 0.8


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit, and what is spent of it."""

    limit: float
    spent: float = 0.0

    @property
    def is_low(self) -> bool:
        """Whether it is time to wrap up."""
        return self.spent >= SOFT * self.limit

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing more may be spent."""
        return self.spent >= self.limit


def check_budgets(given: Mapping[str, Any], what: str = "budgets") -> dict[str, float]:
    """Return limits by name; raises InvalidInput for a name that is no budget, and for a limit that is no number above 0."""
    for name, limit in given.items():
        if name not in KINDS and not (str(name).startswith(COMMANDS) and is_name(str(name).removeprefix(COMMANDS))):
            raise InvalidInput(f"{what} names {name!r}, which is none; {known(name, [*KINDS, COMMANDS + 'NAME'])}")
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= MOST:
            raise InvalidInput(f"{what}: {name} is {reprlib.repr(limit)}; expected a number above 0 ({KINDS.get(name, 'how often')})")
    return dict(given)


def sum_of(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Amounts added up by name."""
    total: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total
