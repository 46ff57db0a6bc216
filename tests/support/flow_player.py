"""Players of a flow in memory, without a store.

Each round gets a new flow object and a context of plain data, as in a worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure import (
    Advance,
    Command,
    End,
    Flow,
    History,
    Interrupt,
    Outcome,
    Renew,
    RoundContext,
    Turn,
)
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.rounds.registry import make


@dataclass
class Played:
    """The course of a run: the outcome of each round, and its end."""

    rounds: list[tuple[str, Outcome]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    end: End | None = None

    @property
    def nodes(self) -> list[str]:
        return [node for node, _ in self.rounds]

    @property
    def observations(self) -> list[Any]:
        return [turn.observation for turn in self.turns]


def play_through(
    flow: Flow | Callable[[], Flow],
    goal: str = "goal",
    inputs: Mapping[str, Any] | None = None,
    answers: Sequence[Any] = (),
    limit: int = 200,
) -> Played:
    """Play to the end, giving ``answers`` to interrupts in turn; an exception of a round is the
    caller's.
    """
    fresh = (lambda: flow) if isinstance(flow, Flow) else flow
    checked = fresh().check_inputs(inputs or {})
    played, node, cycles, waiting = Played(), fresh().first_node, 0, list(answers)
    answered: dict[str, Any] = {}
    for _ in range(limit):
        turns = list(played.turns)
        history = History(
            len(turns), turns[-1:], lambda start, stop, turns=turns: turns[start:stop]
        )
        # Through JSON, as a store would: nothing but plain data passes from round to round.
        committed = json.loads(json.dumps(played.values))
        context = RoundContext(
            goal,
            checked,
            node=node,
            step=len(played.rounds),
            history=history,
            committed=committed,
            **answered,
        )
        current = fresh()
        outcome = current.play(node, context)
        played.rounds.append((node, outcome))
        answered = {}
        if isinstance(outcome, Interrupt):
            answered = {"answer": waiting.pop(0), "answered": True, "asked": outcome.data}
            continue
        played.turns += [
            Turn(_stored(turn.command), storable(turn.observation, "observation"))
            for turn in outcome.turns
        ]
        if isinstance(outcome, Renew):
            checked = current.check_inputs(checked if outcome.inputs is None else outcome.inputs)
            if outcome.values is not None:
                played.values = dict(outcome.values)
            node, cycles = current.first_node, 0
            continue
        played.values |= storable({**context.remembered, **outcome.values}, "values")
        storable(outcome.summary, "the summary")
        if isinstance(outcome, Advance):
            node = outcome.node
            cycles += outcome.ends_cycle
            if outcome.ends_cycle and cycles == current.max_rounds:
                outcome = current.exhausted(played.values)
        if isinstance(outcome, End):
            played.end = outcome
            return played
    raise AssertionError(f"no end after {limit} rounds")


def _stored(command: Command | None) -> Command | None:
    return command and Command(**storable(command, "command"))


class PlayedRun:
    """One run of a registered flow; each round gets a fresh flow and only committed data."""

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
        """Return the context of the next round."""
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
