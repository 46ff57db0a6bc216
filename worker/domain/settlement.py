"""Settlements: the writes of a round's commit.

The module ``settle`` makes a settlement from the outcome of a node, ``settled_waits`` for a node
that waits, and ``failed_attempt`` for a round that failed.
``Beside`` has the writes that do not depend on the settlement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """

    kind: Kind
    fields: Mapping[str, str] = EMPTY
    additions: tuple[str, ...] = ()
    artifacts: Mapping[str, str] = EMPTY
    message: NextMessage | None = None
    options: Mapping[str, str | int] = EMPTY
    cause: str = ""
    otherwise: Settlement | None = None

    @property
    def is_done(self) -> bool:
        """Whether the commit completes the step."""
        return self.kind in ("next", "end", "pause_next")

    @property
    def renews(self) -> bool:
        """Whether the run is renewed: it starts over at its first node."""
        return GENERATION in self.options


GIVE_BACK = Settlement("give_back")


@dataclass(slots=True)
class Beside:
    """The writes of a round's commit that do not depend on the kind of its settlement.

    The parts of the engine add to it while the round is played. ``Committer.commit`` adds it to the
    settlement.

    Attributes:
        accounts: Fields of the run's hash that the run's digest covers: those of the budget
            account, and the round's intents.
        fields: Fields of the run's hash that the digest does not cover.
        options: Arguments of commit_round.lua.
        raised: The exception that the round failed with, for the log. None if it did not fail.
    """

    accounts: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    options: dict[str, str | int] = field(default_factory=dict)
    raised: BaseException | None = None

    def take(self, used: Mapping[str, int], joined: Sequence[str] = ()) -> None:
        """Remove signals and groups that the round used.

        The commit removes these signals from the run's mailbox, and deletes these groups.

        Args:
            used: By name of the signal, the number of the newest signal that the round used.
            joined: Names of the groups of children from which the round received results.
        """
        self.options["take"] = "\n".join(f"{name} {number}" for name, number in used.items())
        if joined:
            self.options["joined"] = "\n".join(joined)


def milliseconds(seconds: float) -> int:
    """Return a duration in whole milliseconds."""
    return round(seconds * 1000)
