"""Settlements: the writes of a round's commit.

The module ``settle`` makes a settlement from the outcome of a node, ``settled_waits`` for a node
that waits, and ``failed_attempt`` for a round that failed.
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
    """The next round: its node, epoch and step. The commit stores this round's message."""

    node: str
    epoch: int
    step: int


EMPTY: Mapping[str, str] = MappingProxyType({})


class Settlement(NamedTuple):
    """The writes of a round's commit, as arguments of commit_round.lua.

    Attributes:
        kind: The transition of the run. The script describes each kind.
        fields: The fields of the run's hash to write.
        additions: Turns to append to the history. With kind ``park``, the plan of a group of
            children.
        artifacts: Texts of the run's artifacts to write, by name.
        message: The next round, whose message is stored. None if no round follows.
        options: Further arguments of the script.
        cause: Type name of the error that the round failed with, for traces. Empty if it did not
            fail.
        otherwise: The settlement to commit if the script does not end the run, because the run has
            unread signals. None if the run ends in any case.
        raised: The exception that the round failed with, for the log. None if it did not fail.
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
        """Whether the commit completes the step."""
        return self.kind in ("next", "end", "pause_next")

    @property
    def renews(self) -> bool:
        """Whether the run is renewed: it starts over at its first node."""
        return GENERATION in self.options


GIVE_BACK = Settlement("give_back")


def taking(
    settlement: Settlement, used: Mapping[str, int], joined: Sequence[str] = ()
) -> Settlement:
    """Return the settlement with the round's used signals and groups.

    The commit removes these signals from the run's mailbox, and deletes these groups. If the round
    is not done, the settlement is returned unchanged.

    Args:
        used: By name of the signal, the number of the newest signal that the round used.
        joined: Names of the groups of children from which the round received results.
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

    If it has an alternative settlement (``otherwise``), that one gets them too.

    Args:
        options: Arguments of commit_round.lua to add.
        fields: Fields of the run's hash to add. The run's digest must not cover them, because it is
            not computed again.
    """
    other = settlement.otherwise
    return settlement._replace(
        options={**settlement.options, **options},
        fields={**settlement.fields, **fields},
        otherwise=None if other is None else with_options(other, options, fields),
    )


def charging(settlement: Settlement, charge: str) -> Settlement:
    """Return the settlement with the amounts to charge to the runs above.

    Args:
        charge: The result of ``BudgetAccount.charge``. If it is empty, or the settlement
            quarantines a damaged run, the settlement is returned unchanged.
    """
    if not charge or settlement.kind == "damaged":
        return settlement
    return settlement._replace(options={**settlement.options, "charge": charge})


def milliseconds(seconds: float) -> int:
    """Return a duration in whole milliseconds."""
    return round(seconds * 1000)
