"""Spending in a tree of runs: the runs that pay for a run, and the amounts that scripts add."""

from __future__ import annotations

from typing import NamedTuple

#: Prefixes of two groups of fields: the spending of the runs below a run, and the amounts added to
#: its limits. Both are whole millionths, which scripts can add. They are not part of the content,
#: since other runs' commits write them.
TREE, ADDED = "t:", "x:"
MILLION = 1_000_000


def millionths(amount: float) -> int:
    """Return an amount in whole millionths."""
    return round(amount * MILLION)


def from_millionths(text: str) -> float:
    """Return the amount of a text in whole millionths. 0 if it is not a number."""
    if not text.isdecimal():
        return 0
    whole, rest = divmod(int(text), MILLION)
    return whole + rest / MILLION if rest else whole


class Payer(NamedTuple):
    """A run above whose budgets count this run's spending.

    ``names`` are the names of those budgets that limit the runs below it.
    """

    run_id: str
    nonce: str
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, line: str) -> Payer:
        """Build the payer from a line of the field ``payers``."""
        run_id, nonce, names = [*line.split(" "), "", ""][:3]
        return cls(run_id, nonce, tuple(names.split(",")) if names else ())

    @property
    def line(self) -> str:
        """The payer as a line of the field ``payers``."""
        return " ".join([self.run_id, self.nonce, *([",".join(self.names)] if self.names else [])])
