"""CircularFlow, a ring of named nodes. The ring repeats until a node ends the run.

Interfaces are functions that convert between the ring's state and a node. They have names, so that
configuration can refer to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from perdure.flows.commands.calls import call
from perdure.flows.core.errors import FatalError, InvalidFlow
from perdure.flows.core.history import EMPTY_HISTORY
from perdure.flows.core.json_values import storable
from perdure.flows.core.names import Names, Role, is_name, suggest
from perdure.flows.core.outcomes import Advance, Command, End, Finish, Interrupt, Outcome, Renew
from perdure.flows.core.retry import Retry
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.flow import Flow, title

Transform = Callable[[dict[str, Any]], Mapping[str, Any]]
#: A registered name, a function, ``{"rename": {old: new}, "select": [names]}``, or None, which
#: passes everything on.
Interface = str | Transform | Mapping[str, Any] | None

_interfaces: Names[Transform] = Names("interface")


def interface(name: str) -> Callable[[Transform], Transform]:
    """Register a function that converts between a ring's state and a node.

    The function takes a dict and returns a dict. Configuration refers to the function by ``name``.

    Raises:
        InvalidFlow: another function has the name.
    """
    return lambda function: _interfaces.keep(name, function)


def resolve(value: Interface) -> Transform:
    """Return the conversion function of an interface setting.

    If ``value`` is None, the function returns an unchanged copy of its dict.

    Raises:
        InvalidFlow: ``value`` is no interface. The message names the nearest known interface or
            key.
    """
    if value is None:
        return dict
    if isinstance(value, str):
        return _interfaces.named(value)
    if callable(value):
        return value
    if not isinstance(value, Mapping):
        raise InvalidFlow(
            f"{value!r} is not an interface; expected a name, a function, "
            "a mapping with 'rename' and 'select', or None"
        )
    return _keys(value)


def _keys(settings: Mapping[str, Any]) -> Transform:
    for key in settings:
        if key not in ("rename", "select"):
            raise InvalidFlow(
                f"an interface has no setting {key!r}; {suggest(key, ['rename', 'select'])}"
            )
    rename, select = settings.get("rename", {}), settings.get("select")
    if not isinstance(rename, Mapping) or not (select is None or _is_list(select)):
        raise InvalidFlow(
            f"{dict(settings)!r} is not an interface; expected 'rename' as a mapping of "
            "names and 'select' as a list of names"
        )

    def transform(data: dict[str, Any]) -> dict[str, Any]:
        # Missing names are skipped: in a ring's first cycle many values do not exist yet.
        renamed = {name: value for name, value in data.items() if name not in rename}
        renamed.update({new: data[old] for old, new in rename.items() if old in data})
        return (
            renamed
            if select is None
            else {name: renamed[name] for name in select if name in renamed}
        )

    return transform


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


@interface("command_to_branch")
def command_to_branch(data: dict[str, Any]) -> dict[str, Any]:
    """Convert a controller's decision to the input of a ``BranchingFlow``.

    The names ``branch`` and ``branch_input_data`` are added.
    """
    return {**data, "branch": data.get("command"), "branch_input_data": data.get("command_args")}


@interface("branch_to_observation")
def branch_to_observation(data: dict[str, Any]) -> dict[str, Any]:
    """Convert a ``BranchingFlow``'s output to the value ``observation``."""
    return {"observation": data.get("branch_output_data")}


@dataclass(frozen=True)
class Node:
    """One node of a ring.

    Attributes:
        name: unique in its ring.
        flow: the function of the node: a function of the flow's state (a dict) and the context, a
            coroutine function, a ``BranchingFlow``, or the name of a method of the flow. It returns
            a mapping, ``Finish``, ``Command``, ``Interrupt`` or ``Renew``.
        goal: the purpose of this node. The node gets it as ``node_goal``.
        input_interface: applied to the flow's state before the node sees it.
        output_interface: applied to the mapping that the node returns.
        reset: whether each visit of the node starts clean. The node then sees an empty history, and
            its remembered values are dropped after the visit.
        role: the role of the workers that run the node.
        retry: the retry policy of the node's rounds. The flow's policy supplies the settings that
            it lacks.
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

    The state is the inputs, the goal, and the named values that the nodes have returned so far.
    Names that begin with ``_`` are reserved for the flow. A node ends the run by returning a truthy
    value under ``early_exit_key``. ``max_rounds`` counts passes over the ring. Every setting is a
    class attribute and a keyword of the constructor.

    Attributes:
        topology: the nodes in order.
        early_exit_key: see above.
        output_keys: the names of the state that make up the run's output.
    """

    topology: Sequence[Node] = ()
    early_exit_key: str = "EARLY_EXIT"
    output_keys: Sequence[str] = ("answer", "status")

    #: Names of the attributes that keywords of the constructor may override.
    settings: ClassVar[tuple[str, ...]] = (
        "name",
        "description",
        "max_rounds",
        "interrupt_before",
        "interrupt_after",
        "lease_seconds",
        "round_timeout_seconds",
        "runs_shell",
        "expose",
        "keep_turns",
        "keep_events",
        "record_values",
        "budgets",
        "retry",
        "on_misfit",
        "lifespan",
        "topology",
        "early_exit_key",
        "output_keys",
    )

    def __init__(self, **settings: Any) -> None:
        """Create a ring of nodes.

        Args:
            settings: attributes that override those of the class.

        Raises:
            InvalidFlow: a setting is unknown, or the definition contradicts itself.
        """
        for setting, value in settings.items():
            if setting not in self.settings:
                raise InvalidFlow(
                    f"{title(self)} has no setting {setting!r}; {suggest(setting, self.settings)}"
                )
            setattr(self, setting, value)
        if settings or not self.is_checked():
            self.check_definition()

    def check_definition(self) -> None:
        """Raise InvalidFlow if this ring's nodes or settings are not valid.

        Raises:
            InvalidFlow: two nodes have the same name, a node has no function, an interface is
                unknown, or ``early_exit_key`` is not a name.
        """
        names = [node.name for node in self.topology]
        for node in self.topology:
            if names.count(node.name) > 1:
                raise InvalidFlow(
                    f"{title(self)} has two nodes named {node.name!r}; names must differ"
                )
            if not callable(
                getattr(self, node.flow, None) if isinstance(node.flow, str) else node.flow
            ):
                expected = "a function, a BranchingFlow, or the name of a method of the flow"
                raise InvalidFlow(
                    f"{title(self)}: node {node.name} is played by {node.flow!r}; "
                    f"expected {expected}"
                )
            resolve(node.input_interface)
            resolve(node.output_interface)
            if node.retry is not None and not isinstance(node.retry, Retry):
                raise InvalidFlow(
                    f"{title(self)}: node {node.name}: retry is {node.retry!r}; expected Retry(...)"
                )
        if not is_name(self.early_exit_key):
            raise InvalidFlow(
                f"{title(self)}: early_exit_key is {self.early_exit_key!r}; expected a name"
            )
        super().check_definition()

    @property
    def nodes(self) -> Mapping[str, Role]:
        """The role of each node, in ring order."""
        return {node.name: node.role for node in self.topology}

    @property
    def fork_nodes(self) -> Sequence[str]:
        """All nodes if ``record_values`` is set, else none. Events then record changed values."""
        return tuple(self.nodes) if self.record_values else ()

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Run a round: call the node's function with the ring's state, and return the outcome.

        Raises:
            FatalError: the ring has no such node, or the node returned something that it must not
                return.
        """
        place = self._place(node)
        seen = altered(context, history=EMPTY_HISTORY, remembered={}) if place.reset else context
        state = dict(resolve(place.input_interface)(self.state_for(place, context)))
        function = getattr(self, place.flow) if isinstance(place.flow, str) else place.flow
        result = call(function, seen, state, seen)
        if isinstance(result, Interrupt):
            return result
        if isinstance(result, Renew):
            _check_reserved(self, node, "renewed with", result.values or {})
            return result
        return self.settle(place, context, self.output_of(place, result))

    def retry_of(self, node: str, values: Mapping[str, Any]) -> Retry | None:
        """Return a node's retry policy. The flow's policy supplies missing settings.

        Returns:
            None if neither the node nor the flow has a policy.
        """
        own = next((place.retry for place in self.topology if place.name == node), None)
        return own.over(self.retry) if own is not None else self.retry

    def state_for(self, place: Node, context: RoundContext) -> dict[str, Any]:
        """Return the ring's state for a node: the run's inputs, its goal and its named values.

        The input interface of the node is not yet applied to the state.
        """
        values = {name: value for name, value in context.values.items() if not name.startswith("_")}
        goal = {"node_goal": place.goal} if place.goal else {}
        return {**context.inputs, "goal": context.goal, **goal, **values}

    def output_of(self, place: Node, result: Any) -> dict[str, Any]:
        """Convert a node's return value to named values for the run.

        Raises:
            FatalError: the value has a type that a node must not return, or a reserved name.
        """
        if isinstance(result, Finish):
            return {
                self.early_exit_key: True,
                "answer": self.check_answer(result.answer),
                "status": "finished",
            }
        # The arguments are stored as one value, so no argument of an earlier command is left over.
        if isinstance(result, Command):
            result = {"command": result.name, "command_args": dict(result.args)}
        if not isinstance(result, dict | Mapping):  # most are dicts, which is seen at once
            expected = "a mapping, Finish, Command, Interrupt or Renew"
            raise FatalError(
                f"{title(self)}: node {place.name} returned a {type(result).__name__}; "
                f"expected {expected}"
            )
        output = resolve(place.output_interface)(dict(result))
        plain: dict[str, Any] = storable(output, f"what node {place.name} returned")
        _check_reserved(self, place.name, "returned", plain)
        return plain

    def settle(
        self, place: Node, context: RoundContext, output: Mapping[str, Any]
    ) -> Advance | End:
        """Return the end of the run on an early exit, else the advance to the next node."""
        values = {**({} if place.reset else context.remembered), **output}
        if output.get(self.early_exit_key):
            state = {**context.committed, **values}
            return End(state.get("answer"), self._output(state), values=values)
        after = self.topology[(self.topology.index(place) + 1) % len(self.topology)]
        return Advance(after.name, values=values, ends_cycle=after is self.topology[0])

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """Return the end of a run that used up its cycles. Its status is ``unfinished``.

        The answer and the output come from the ring's state.
        """
        state = {**values, "status": "unfinished"}
        return End(state.get("answer"), self._output(state))

    def _output(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return {name: state[name] for name in self.output_keys if name in state}

    def _place(self, node: str) -> Node:
        for place in self.topology:
            if place.name == node:
                return place
        raise FatalError(f"{title(self)} has no node {node!r}; {suggest(node, self.nodes)}")


def _check_reserved(flow: Flow, node: str, did: str, names: Iterable[str]) -> None:
    """Raise FatalError if one of ``names`` is reserved for the flow.

    Args:
        did: the verb of the error text, such as ``returned``.
    """
    for name in names:
        if str(name).startswith("_"):
            raise FatalError(
                f"{title(flow)}: node {node} {did} the name {name!r}; names that begin with '_' "
                "are reserved for the flow"
            )
