"""Fork: the state of a new run that begins with another run's rounds.

The submission of the new run copies these rounds. After that, the fork never reads the other run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.flows.core.files import MOST_TOGETHER
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import REMARKS
from perdure.worker.domain.record import FILES, FOLLOWS, FORGOTTEN, FORKED, VALUE, Record
from perdure.worker.domain.turn_texts import pack_turn
from perdure.worker.errors import InvalidInput, NotForkable

if TYPE_CHECKING:
    from perdure.flows.core.outcomes import Turn
    from perdure.worker.settings import Settings


@dataclass(frozen=True)
class Fork:
    """The state that a fork takes over from another run.

    Attributes:
        run_id: Id of the other run.
        step: The step at which the fork begins.
        node: The node of this step.
        turns: The other run's turns before this step that are still stored.
        forgotten: Number of the other run's oldest turns that are no longer stored.
        values: Named values that the fork begins with.
        artifacts: Artifacts that the turns name, and the other run's files, by name.
        files: The hash field with the references to these files. Empty if the other run has none.
        follows: Id of the run before the other run in its thread. None if no run is before it.
        spent: Amounts that the rounds before this step had spent, by budget.
        origins: The runs that the other run itself was forked from (``origins_of``).
        asked: The caller's request as JSON data. Its digest identifies a repeated call.
    """

    run_id: str
    step: int
    node: str
    turns: Sequence[Turn] = ()
    forgotten: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)
    files: str = ""
    follows: str | None = None
    spent: Mapping[str, float] = field(default_factory=dict)
    origins: Sequence[tuple[str, int]] = ()
    asked: Mapping[str, Any] = field(default_factory=dict)

    def fields(self, settings: Settings) -> dict[str, str]:
        """Return the fork's hash fields for history, values and origin.

        Raises:
            InvalidInput: The values are larger than the setting ``max_state_bytes``.
            UnstorableValue: A value would not read back equal.
        """
        count = self.forgotten + len(self.turns)
        origin = {
            "run": self.run_id,
            "step": self.step,
            "turns": len(self.turns),
            "spent": dict(self.spent),
            "origins": [[run_id, turns] for run_id, turns in (*self.origins, (self.run_id, count))],
        }
        fields = {"turns": str(count), FORKED: canonical(origin)}
        if self.forgotten:
            fields[FORGOTTEN] = str(self.forgotten)
        if self.files:
            fields[FILES] = self.files
        if self.follows is not None:
            fields[FOLLOWS] = self.follows
        values = {
            VALUE + name: canonical(storable(value, f"the value {name!r}"))
            for name, value in self.values.items()
        }
        size = sum(len(text.encode()) for text in values.values())
        if size > settings.max_state_bytes:
            raise InvalidInput(
                f"values: they take {size} bytes; the limit is {settings.max_state_bytes} "
                "(max_state_bytes)"
            )
        remarks = [
            place for place, turn in enumerate(self.turns, self.forgotten) if turn.said is not None
        ]
        if remarks:
            values[VALUE + REMARKS] = canonical(remarks)
        return fields | values

    def packed(self, run_id: str) -> list[str]:
        """Return the turns as texts for the stored history of the fork.

        Args:
            run_id: The id of the fork.

        Raises:
            NotForkable: The turns and the artifacts together are larger than MOST_TOGETHER.
        """
        packed = [pack_turn(turn, run_id) for turn in self.turns]
        texts = [*packed, *self.artifacts.values()]
        size = sum(len(text.encode("utf-8", "surrogateescape")) for text in texts)
        if size > MOST_TOGETHER:
            raise NotForkable(
                f"run {self.run_id} cannot be forked at step {self.step}: the turns before it take "
                f"{size:,} bytes, with the artifacts that they name; the limit is "
                f"{MOST_TOGETHER:,}. Fork it at an earlier step"
            )
        return packed


def origins_of(record: Record) -> list[tuple[str, int]]:
    """Return the runs that a run was forked from, oldest first.

    A fork of a fork has several. Each id comes with a number of turns: the turns of the history up
    to this number were made by that run or the runs before it in the list. The list is empty if the
    run is no fork.
    """
    if FORKED not in record.fields:
        return []
    return [(run_id, turns) for run_id, turns in record.mapping(FORKED)["origins"]]


def shown_origin(record: Record) -> dict[str, Any]:
    """Return the origin of a fork for clients.

    The keys are ``run``, ``step``, ``turns`` and ``spent``. A value that the record lacks is None.
    """
    origin = record.mapping(FORKED)
    return {name: origin.get(name) for name in ("run", "step", "turns", "spent")}
