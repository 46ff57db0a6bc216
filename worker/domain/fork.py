"""Fork: a new run that begins with the rounds of another run before a step.

The submission of the new run writes these rounds at once. So a fork has the turns from its
beginning, and never reads the other run again.
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
    """State that a fork takes over from another run.

    Attributes:
        run_id: Id of the other run.
        step: The step at which the fork begins.
        node: The node of this step.
        turns: The turns before this step that are still stored.
        forgotten: Number of the oldest turns that are gone.
        values: Named values at this step.
        artifacts: Artifacts that the turns name, and the files of the run, by name.
        files: The references to these files, as they are stored. Empty for none.
        follows: Id of the run before the other run in its thread, or None.
        spent: Amounts that the rounds before this step had spent, by budget.
        origins: The runs that the other run was forked from, as ``origins_of`` returns them.
        asked: The caller's request as JSON data, to recognize a repeated call.
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
        """Return the new run's hash fields about its history.

        Raises:
            InvalidInput: The values are too large.
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
        """Return the turns as texts for the history of the new run, ``run_id``.

        Raises:
            NotForkable: The turns and the artifacts together are too large.
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
    """Return the runs that a run was forked from.

    They come oldest first, each with the number of turns up to which the history is that run's.
    Empty if the run is no fork.
    """
    if FORKED not in record.fields:
        return []
    return [(run_id, turns) for run_id, turns in record.mapping(FORKED)["origins"]]


def shown_origin(record: Record) -> dict[str, Any]:
    """Return from which run and step a run was forked, as clients see it."""
    origin = record.mapping(FORKED)
    return {name: origin.get(name) for name in ("run", "step", "turns", "spent")}
