"""Settlements: the writes of a round's commit.

``settle`` makes one from the outcome of a round's node, ``settled_waits`` for a node that waits,
and ``failed_attempt`` for a round that failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from perdure.worker.domain.record import GENERATION

Kind = Literal[
    "next", "end", "pause_next", "pause_here", "park", "short", "failed", "give_back", "damaged"
]  # fmt: skip

#: Longest wait in seconds: ten years. Times must stay whole numbers that Lua counts exactly.
LONGEST = 10 * 365.25 * 86_400


class NextMessage(NamedTuple):
    """Round whose message the commit stores: node, epoch and step."""

    node: str
    epoch: int
    step: int


EMPTY: Mapping[str, str] = MappingProxyType({})


class Settlement(NamedTuple):
    """Everything that commit_round.lua writes for a round.

    Attributes:
        options: Further arguments of the script.
        cause: Type name of the error that the round failed with, for traces. Empty if it did not
            fail.
        otherwise: Settlement to write if the end is refused, because the run has unread messages.
        raised: Exception that the round failed with, for the log. None if it did not fail.
    """

    kind: Kind
    fields: Mapping[str, str] = EMPTY
    additions: tuple[str, ...] = ()
    artifacts: Mapping[str, str] = EMPTY
    message: NextMessage | None = None
    options: Mapping[str, str | int] = EMPTY
    cause: str = ""
    otherwise: Settlement | None = None
    raised: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether the round is done: its commit completes the step."""
        return self.kind in ("next", "end", "pause_next")

    @property
    def renews(self) -> bool:
        """Whether the run is renewed: it starts over at its first node."""
        return GENERATION in self.options


GIVE_BACK = Settlement("give_back")


def taking(
    settlement: Settlement, used: Mapping[str, int], joined: Sequence[str] = ()
) -> Settlement:
    """Return the settlement, extended by the signals and groups that the round used up.

    The commit removes these signals from the run's mailbox, and deletes these groups of children.
    Nothing is added if the round is not done.

    Args:
        used: Number of the newest signal that the round used, by name.
        joined: Names of groups of children whose results the round has received.
    """
    if not settlement.is_done:
        return settlement
    lines = "\n".join(f"{name} {number}" for name, number in used.items())
    also = {"joined": "\n".join(joined)} if joined else {}
    return with_options(settlement, {"take": lines, **also})


def with_options(
    settlement: Settlement, options: Mapping[str, str | int], fields: Mapping[str, str] = EMPTY
) -> Settlement:
    """Return the settlement with further options and fields.

    Its ``otherwise`` gets them too.

    Args:
        fields: Fields of the run's hash, beside its content.
    """
    other = settlement.otherwise
    return settlement._replace(
        options={**settlement.options, **options},
        fields={**settlement.fields, **fields},
        otherwise=None if other is None else with_options(other, options, fields),
    )


def charging(settlement: Settlement, charge: str) -> Settlement:
    """Return the settlement with the charge for runs above.

    Args:
        charge: the lines of ``BudgetAccount.charge``.
    """
    if not charge or settlement.kind == "damaged":
        return settlement
    return settlement._replace(options={**settlement.options, "charge": charge})


def milliseconds(seconds: float) -> int:
    """Return a duration in whole milliseconds."""
    return round(seconds * 1000)
