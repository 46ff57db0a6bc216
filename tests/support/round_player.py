"""Playing a flow to its end in this process: what the engine does with a run, without what makes it durable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.flows.context import RoundContext
from perdure.flows.flow import Flow
from perdure.flows.history import History
from perdure.flows.json_values import canonical, storable
from perdure.flows.outcomes import Advance, End, Turn
from perdure.flows.registry import make


class PlayedRun:
    """One run of a registered flow; each round gets a fresh flow and only what would have been committed."""

    def __init__(self, flow: str, inputs: Mapping[str, Any]) -> None:
        self.flow_name = flow
        self.inputs = self.flow.check_inputs(inputs)
        self.node = self.flow.first_node
        self.step = 0
        self.turns: list[Turn] = []
        self.values: dict[str, Any] = {}
        self.summaries: list[Mapping[str, Any]] = []

    @property
    def flow(self) -> Flow:
        """A fresh flow object."""
        return make(self.flow_name)

    def context(self) -> RoundContext:
        """What the next round sees."""
        history = History(
            len(self.turns), self.turns[-1:], lambda start, stop: self.turns[start:stop]
        )
        return RoundContext(
            "goal",
            inputs=self.inputs,
            node=self.node,
            step=self.step,
            history=history,
            committed=dict(self.values),
        )

    def round(self, context: RoundContext | None = None) -> End | None:
        """Play one round and commit it; the end of the run, if this was it."""
        outcome = self.flow.play(self.node, context or self.context())
        assert isinstance(outcome, Advance | End)
        canonical(storable(dict(outcome.values), "values"))
        self.turns += outcome.turns
        self.values.update(outcome.values)
        self.summaries.append(outcome.summary)
        self.step += 1
        if isinstance(outcome, End):
            return outcome
        self.node = outcome.node
        return None

    def rounds(self) -> Iterator[End | None]:
        """Play round after round."""
        end = None
        while end is None:
            end = self.round()
            yield end

    def end(self) -> End:
        """Play to the end."""
        *_, end = self.rounds()
        assert end is not None
        return end
