"""Budgets, the spending limits of a run."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.names import is_name, suggest

#: The kinds of budgets, and their units. ``commands.NAME`` limits how often one command is carried
#: out.
KINDS = {
    "cycles": "passes of controller and executor",
    "tokens": "tokens that models read and wrote",
    "money": "US dollars, by the price list of the model library",
    "seconds": "seconds of wall time, without waits for a person",
    "runs": "runs that may be started below it, at any depth",
}
#: Budgets that count only the run itself. All others also count the spending of the runs below it.
OWN = frozenset({"cycles", "seconds"})
#: The budget of runs: it is checked when a node wants to start children.
RUNS = "runs"
COMMANDS = "commands."
#: The highest limit. Beyond it floats no longer count in steps of one, and a limit means nothing.
MOST = 1e15
#: The share of a limit from which the controller is asked to finish.
SOFT = 0.8


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit of a run, and the amount spent."""

    limit: float
    spent: float = 0.0

    @property
    def is_low(self) -> bool:
        """Whether at least 80 % of this budget is spent. The controller should finish soon."""
        return self.spent >= SOFT * self.limit

    @property
    def is_exhausted(self) -> bool:
        """Whether the limit of this budget is reached. The run may spend nothing more."""
        return self.spent >= self.limit


def check_budgets(limits: Mapping[str, Any], what: str = "budgets") -> dict[str, float]:
    """Validate the limits of a run's budgets. Return them by budget name (tokens, money, ...).

    A limit is a number above 0 and at most ``MOST``. A limit of cycles, runs or a command is a
    whole number.

    Args:
        limits: the limits, by budget name.
        what: the beginning of the error text.

    Raises:
        InvalidInput: a name is not a budget, or a limit is not valid.
    """
    for name, limit in limits.items():
        if name not in KINDS and not (
            str(name).startswith(COMMANDS) and is_name(str(name).removeprefix(COMMANDS))
        ):
            raise InvalidInput(
                f"{what}: unknown budget {name!r}; {suggest(name, [*KINDS, COMMANDS + 'NAME'])}"
            )
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= MOST:
            raise InvalidInput(
                f"{what}: {name} is {reprlib.repr(limit)}; expected a number above 0 "
                f"({KINDS.get(name, 'how often')})"
            )
        if name not in ("tokens", "money", "seconds") and limit != int(limit):
            raise InvalidInput(f"{what}: {name} is {limit!r}; expected a whole number")
    return dict(limits)


def check_commands(limits: Mapping[str, float], commands: Iterable[str], where: str) -> None:
    """Raise InvalidInput if a budget names a command that the flow does not have.

    Budgets that do not limit a command (tokens, money, ...) are not checked here.

    Args:
        limits: the limits of budgets, by budget name.
        commands: the names of the flow's commands.
        where: the flow's name in the error.
    """
    known = [COMMANDS + name for name in commands]
    for name in limits:
        if name.startswith(COMMANDS) and name not in known:
            raise InvalidInput(
                f"{where} has no command for the budget {name!r}; {suggest(name, known)}"
            )


def sum_of(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the total of several spending records, by budget name (tokens, money, ...)."""
    total: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total
