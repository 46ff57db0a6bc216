"""CircularFlow: a ring of named nodes, gone round until one of them ends the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from flows.base import Flow, Role
from flows.calls import call
from flows.context import EMPTY_HISTORY, RoundContext, altered
from flows.definition import is_name, known, title
from flows.errors import FatalError, InvalidFlow
from flows.interfaces import Interface, resolve
from flows.outcomes import Advance, Command, End, Finish, Interrupt, Outcome
from flows.retries import Retry
from flows.values import storable


@dataclass(frozen=True)
class Node:
    """One place in a ring.

    Attributes:
        name: unique in its ring.
        flow: what plays it: a function of the ring's state (a dict) and the context, a coroutine function, a
            ``BranchingFlow``, or the name of a method of the ring. It returns a mapping, ``Finish``, ``Command`` or ``Interrupt``.
        goal: what this node is for; it is given as ``node_goal``.
        input_interface: applied to the ring's state before the node sees it.
        output_interface: applied to the mapping that the node returns.
        reset: the node starts clean at each visit: it sees an empty history, and what it remembers does not outlive the visit.
        role: which workers play it.
        retry: how its failed rounds are tried again; what it leaves out the flow's policy says.
    """

    name: str
    flow: str | Callable[[dict[str, Any], RoundContext], Any]
    goal: str = ""
    input_interface: Interface = None
    output_interface: Interface = None
    reset: bool = False
    role: Role = "executor"
    retry: Retry | None = None


class CircularFlow(Flow):
    """A ring of nodes over one state.

    The state is the inputs, the goal, and the named values that the nodes have returned so far. Names that begin
    with ``_`` are the flow's own. A true value under ``early_exit_key`` in what a node returns ends the run there.
    ``max_rounds`` counts passes over the ring. Every setting is a class attribute and a keyword of the constructor.

    Attributes:
        topology: the nodes in order.
        early_exit_key: see above.
        output_keys: which names of the state are the run's output.
    """

    topology: Sequence[Node] = ()
    early_exit_key: str = "EARLY_EXIT"
    output_keys: Sequence[str] = ("answer", "status")

    settings: ClassVar[tuple[str, ...]] = (
        "name", "description", "max_rounds", "interrupt_before", "interrupt_after", "lease_seconds",
        "round_timeout_seconds", "runs_shell", "budgets", "retry", "topology", "early_exit_key", "output_keys",
    )  # fmt: skip

    def __init__(self, **settings: Any) -> None:
        """Override settings of the class by keyword; raises InvalidFlow if the definition contradicts itself."""
        for setting, value in settings.items():
            if setting not in self.settings:
                raise InvalidFlow(f"{title(self)} has no setting {setting!r}; {known(setting, self.settings)}")
            setattr(self, setting, value)
        if settings or not self.is_checked():
            self.check_definition()

    def check_definition(self) -> None:
        """Also: node names are unique, every node can be played, every interface is known, the early exit has a name."""
        names = [node.name for node in self.topology]
        for node in self.topology:
            if names.count(node.name) > 1:
                raise InvalidFlow(f"{title(self)} has two nodes named {node.name!r}; names must differ")
            if not callable(getattr(self, node.flow, None) if isinstance(node.flow, str) else node.flow):
                expected = "a function, a BranchingFlow, or the name of a method of the ring"
                raise InvalidFlow(f"{title(self)}: node {node.name} is played by {node.flow!r}; expected {expected}")
            resolve(node.input_interface)
            resolve(node.output_interface)
            if node.retry is not None and not isinstance(node.retry, Retry):
                raise InvalidFlow(f"{title(self)}: node {node.name}: retry is {node.retry!r}; expected Retry(...)")
        if not is_name(self.early_exit_key):
            raise InvalidFlow(f"{title(self)}: early_exit_key is {self.early_exit_key!r}; expected a name")
        super().check_definition()

    @property
    def nodes(self) -> Mapping[str, Role]:
        """The nodes in the order of the ring."""
        return {node.name: node.role for node in self.topology}

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Hand the ring's state to the node, and its output to the ring."""
        place = self._place(node)
        seen = altered(context, history=EMPTY_HISTORY, remembered={}) if place.reset else context
        given = dict(resolve(place.input_interface)(self.state_for(place, context)))
        function = getattr(self, place.flow) if isinstance(place.flow, str) else place.flow
        result = call(function, seen, given, seen)
        if isinstance(result, Interrupt):
            return result
        return self.settle(place, context, self.output_of(place, result))

    def retry_of(self, node: str, values: Mapping[str, Any]) -> Retry | None:
        """The node's own policy over the flow's."""
        own = next((place.retry for place in self.topology if place.name == node), None)
        return own.over(self.retry) if own is not None else self.retry

    def state_for(self, place: Node, context: RoundContext) -> dict[str, Any]:
        """The ring's state as a node gets it, before its input interface."""
        values = {name: value for name, value in context.values.items() if not name.startswith("_")}
        goal = {"node_goal": place.goal} if place.goal else {}
        return {**context.inputs, "goal": context.goal, **goal, **values}

    def output_of(self, place: Node, result: Any) -> dict[str, Any]:
        """What a node returned, as named values; raises FatalError if it is nothing that a node may return."""
        if isinstance(result, Finish):
            return {self.early_exit_key: True, "answer": storable(result.answer, "the answer"), "status": "finished"}
        if isinstance(result, Command):  # one value, written whole: no argument of an earlier command is left over
            result = {"command": result.name, "command_args": dict(result.args)}
        if not isinstance(result, Mapping):
            expected = "a mapping, Finish, Command or Interrupt"
            raise FatalError(f"{title(self)}: node {place.name} returned a {type(result).__name__}; expected {expected}")
        output = resolve(place.output_interface)(dict(result))
        plain: dict[str, Any] = storable(output, f"what node {place.name} returned")
        for name in plain:
            if name.startswith("_"):
                raise FatalError(f"{title(self)}: node {place.name} returned the name {name!r}; such names are the flow's own")
        return plain

    def settle(self, place: Node, context: RoundContext, output: Mapping[str, Any]) -> Advance | End:
        """End the run if the node said so, else go on to the next node."""
        values = {**({} if place.reset else context.remembered), **output}
        if output.get(self.early_exit_key):
            state = {**context.committed, **values}
            return End(state.get("answer"), self._output(state), values=values)
        after = self.topology[(self.topology.index(place) + 1) % len(self.topology)]
        return Advance(after.name, values=values, ends_cycle=after is self.topology[0])

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """The run ends with what its state holds, and the status ``unfinished``."""
        state = {**values, "status": "unfinished"}
        return End(state.get("answer"), self._output(state))

    def _output(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return {name: state[name] for name in self.output_keys if name in state}

    def _place(self, node: str) -> Node:
        for place in self.topology:
            if place.name == node:
                return place
        raise FatalError(f"{title(self)} has no node {node!r}; {known(node, self.nodes)}")
