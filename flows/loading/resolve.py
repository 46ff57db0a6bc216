"""Lookup of the names in a flow file: commands, a controller, and the nodes of a ring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from perdure.flows.commands.command import CommandSpec, registered_commands, spec_of
from perdure.flows.commands.controller import Controller, InvalidController, registered_controllers
from perdure.flows.core.budgets import check_budgets
from perdure.flows.core.errors import InvalidFlow, InvalidInput
from perdure.flows.core.names import Names, registered_nodes, suggest
from perdure.flows.executors.mcp.config import ServerConfig
from perdure.flows.loading.errors import FileFaults, Place
from perdure.flows.loading.schema import InterfaceKeys, NodeKeys, RunKeys
from perdure.flows.loading.validate import nearest
from perdure.flows.rings.branching_flow import BranchingFlow
from perdure.flows.rings.circular import Interface, Node, resolve
from perdure.flows.rings.config import (
    CommandConfig,
    ControllerConfig,
    ExecutorConfig,
    SubflowsConfig,
)
from perdure.flows.rings.controller_executor import ControllerExecutorFlow
from perdure.flows.rings.run_node import ITEM, RunNode, names_in
from perdure.flows.rings.wait_nodes import signal_node, sleep_node, until_node
from perdure.flows.rounds.lifespans import Lifespan, registered_lifespans

T = TypeVar("T")

#: The keys that say what a node runs or waits for. A node has one of them.
PLAYERS = ("flow", "run", "sleep", "until", "wait_for")
#: The two nodes that every controller_executor ring has.
OWN = {node.name: node for node in ControllerExecutorFlow.topology}


def own_commands_of(controller: Controller | None) -> frozenset[str]:
    """Return the names of a controller's own commands."""
    return frozenset(spec.name for spec in getattr(controller, "own_commands", ()))


def commands_at(
    place: Place,
    chosen: Mapping[str, CommandConfig] | Sequence[str],
    faults: FileFaults,
    brought: Collection[str] = (),
) -> list[CommandSpec]:
    """Return the registered commands that a flow file names, with their settings.

    A name that is unknown or has invalid settings becomes a fault, and is left out. The flows that
    commands start are added to ``faults.starts``.

    Args:
        place: The path of the names in the file.
        chosen: The names of the commands, or their settings by name.
        brought: Names of the controller's own commands. They are left out.
    """
    import perdure.flows.executors  # noqa: F401  registers the commands that ship

    named = chosen if isinstance(chosen, Mapping) else {name: CommandConfig() for name in chosen}
    specs = []
    for position, (name, config) in enumerate(named.items()):
        if name in brought:
            continue
        here = (*place, name) if isinstance(chosen, Mapping) else (*place, position)
        with faults.at(*here, key=isinstance(chosen, Mapping)):
            if name == "finish":
                raise InvalidFlow(
                    "'finish' ends the run and is always available; configure it under Controller"
                )
            if config.flow is not None:
                faults.starts[*here, "flow"] = config.flow
            spec = config.flow_command(name) or replace(
                spec_of(_registered(registered_commands, name)), name=name
            )
            specs.append(spec.configured(config.said))
    return specs


def tools_at(
    place: Place, servers: Mapping[str, ServerConfig], faults: FileFaults
) -> list[CommandSpec]:
    """Return the tools of MCP servers as commands. No server is started.

    A server with invalid settings becomes a fault, and its tools are left out.

    Args:
        place: The path of the servers in the file.
        servers: The settings of the servers, by name.
    """
    from perdure.flows.executors.mcp.commands import commands_of_server

    specs: list[CommandSpec] = []
    for name, server in servers.items():
        with faults.at(*place, name):
            specs += commands_of_server(name, server)
    return specs


def also_choosing(config: SubflowsConfig, commands: Sequence[CommandSpec]) -> SubflowsConfig:
    """Return a copy of a configuration in which the Executor also offers ``commands``."""
    chosen = {**config.Executor.chosen, **{spec.name: CommandConfig() for spec in commands}}
    return config.model_copy(
        update={"Executor": config.Executor.model_copy(update={"subflows_config": chosen})}
    )


def controller_named(name: str, config: ControllerConfig, faults: FileFaults) -> Controller | None:
    """Create the controller that a flow file names, with the file's settings.

    Returns:
        None if the controller cannot be made. The reasons are added to the faults.
    """
    import perdure.flows.controllers.model  # noqa: F401  registers the controller `model`

    made = None
    with faults.at("controller"):
        maker = _registered(registered_controllers, name)
        settings = dict(config.model_extra or {})
        accepted, as_written = _accepted(maker, name, settings, faults)
        if accepted is not None:
            try:
                made = _made(maker, name, accepted)
            except InvalidController as error:
                for place, message in error.faults:
                    faults.add(("subflows_config", "Controller", *place), message)
            except InvalidFlow:
                if as_written:  # otherwise it may be caused by the settings that were dropped
                    raise
    return made


def lifespan_named(name: str) -> Lifespan[Any]:
    """Return the registered lifespan of this name.

    Raises:
        InvalidFlow: The name is unknown.
    """
    return _registered(registered_lifespans, name)


def ring_of(
    nodes: Sequence[NodeKeys],
    parts: Mapping[str, Any],
    faults: FileFaults,
    own: bool,
    inputs: Iterable[str] = (),
) -> list[Node]:
    """Return the nodes of a ring, as the key ``topology`` of a flow file describes them.

    Faults of the nodes are added to ``faults``. The result is of no use if there are any.

    Args:
        nodes: The keys of each node.
        parts: The subflows of the file, by name. A node's ``flow`` names one of them or a
            registered node function.
        own: Whether the flow is a controller_executor, whose ring has a Controller and an Executor.
        inputs: The names of the inputs that the file declares.
    """
    names = [keys.name for keys in nodes]
    for position, name in enumerate(names):
        if name in names[:position]:
            faults.add(
                ("topology", position, "name"), f"two nodes are named {name!r}; names must differ"
            )
    whole = not own or [name for name in names if name in OWN] == list(OWN)
    if not whole and faults.nodes_are_known:
        faults.add(
            ("topology",),
            "expected one node named Controller, and after it one named Executor; got: "
            f"{', '.join(names)}",
        )
    for position, keys in enumerate(nodes):
        if keys.run is not None:
            place = ("topology", position, "run")
            faults.starts[*place, "flow"] = keys.run.flow
            _check_run(place, keys.run, _names_before(nodes[:position], inputs), faults)
    return [
        _node(("topology", position), keys, parts, faults, own, whole)
        for position, keys in enumerate(nodes)
    ]


def _check_run(place: Place, keys: RunKeys, known: set[str] | None, faults: FileFaults) -> None:
    """Record a fault for each name in ``run`` that no value of the ring can have.

    An invalid budget of the child runs becomes a fault, too.

    Args:
        place: The path of the key ``run``.
        known: The possible names of the ring's values at this node. None if any name is possible.
    """
    try:
        check_budgets(keys.budgets)
    except InvalidInput as error:
        faults.add((*place, "budgets"), str(error))
    if known is None:
        return
    expected = "expected an input under inputs, or the output of an earlier node"
    if keys.for_each is not None and keys.for_each not in known:
        faults.add(
            (*place, "for_each"),
            f"no value is named {keys.for_each!r}; {suggest(keys.for_each, known)}; {expected}",
        )
    known |= {ITEM} if keys.for_each is not None else set()
    for key, data in (("goal", keys.goal), ("inputs", keys.inputs)):
        for name in names_in(data):
            if name not in known:
                faults.add(
                    (*place, key),
                    f"no value is named {name!r}; {suggest(name, known)}; {expected}. "
                    f"For the text itself, write {{{{{name}}}}}",
                )


def _names_before(nodes: Sequence[NodeKeys], inputs: Iterable[str]) -> set[str] | None:
    """Return the names that a ring's values may have after its first nodes.

    Args:
        nodes: The first nodes of the ring.
        inputs: The names of the inputs that the file declares.

    Returns:
        None if one of these nodes may return any names.
    """
    names = {"goal", *inputs}
    for keys in nodes:
        selected = getattr(keys.output_interface, "keys_to_select", None)
        wait = keys.run or keys.wait_for
        if selected is not None:
            names |= set(selected)
        elif keys.output_interface is not None or not (wait or keys.sleep or keys.until):
            return None
        elif wait is not None and wait.into is not None:
            names.add(wait.into)
    return names


def _node(
    place: Place,
    keys: NodeKeys,
    parts: Mapping[str, Any],
    faults: FileFaults,
    own: bool,
    whole: bool,
) -> Node:
    base = OWN[keys.name] if own and keys.name in OWN else Node(keys.name, _nothing)
    overrides: dict[str, Any] = {
        key: getattr(keys, key)
        for key in ("goal", "reset", "role")
        if getattr(keys, key) is not None
    }
    if keys.retry is not None:
        overrides["retry"] = keys.retry.made()
    for key in ("input_interface", "output_interface"):
        if key in keys.model_fields_set:
            with faults.at(*place, key):
                overrides[key] = _interface(getattr(keys, key))
    players = [key for key in PLAYERS if getattr(keys, key) is not None]
    for key in players[1:]:
        faults.add(
            (*place, key),
            f"a node has one of {', '.join(PLAYERS)}; this one has {players[0]} already",
        )
    if (wait := _wait_of(keys)) is not None:
        if base.flow is not _nothing:
            faults.add(
                (*place, players[0]),
                f"the node {keys.name} always runs {keys.name}; "
                f"put the {'run' if keys.run else 'wait'} into a node of its own",
            )
        overrides["flow"] = wait
    elif base.flow is _nothing and keys.flow is None and not whole:
        pass  # it may be meant as the missing Controller or Executor, which has its own fault
    elif not players and any((*place, key) in faults.blamed for key in PLAYERS):
        pass  # its player could not be read
    elif base.flow is _nothing and keys.flow not in parts and ("subflows_config",) in faults.blamed:
        pass  # it may name a subflow, and these could not be read
    elif base.flow is _nothing:
        with faults.at(*place, "flow"):
            overrides["flow"] = _flow_named(keys, parts, own)
    elif keys.flow not in (None, keys.name):
        faults.add(
            (*place, "flow"),
            f"the node {keys.name} always runs {keys.name}; remove flow, or rename the node",
        )
    return replace(base, **overrides)


def _run_node(keys: RunKeys) -> RunNode:
    options = {name: getattr(keys, name) for name in ("budgets", "deadline", "max_rounds")}
    return RunNode(
        keys.flow,
        keys.goal,
        keys.inputs,
        keys.for_each,
        keys.wait,
        keys.max_concurrency,
        keys.timeout,
        keys.on_failure,
        keys.into,
        {name: value for name, value in options.items() if value},
    )


def _wait_of(keys: NodeKeys) -> Callable[..., Any] | None:
    """Return the function of a node that waits or starts runs. None for any other node."""
    if keys.run is not None:
        return _run_node(keys.run)
    if keys.sleep is not None:
        return sleep_node(keys.sleep)
    if keys.until is not None:
        return until_node(keys.until)
    if keys.wait_for is not None:
        return signal_node(keys.wait_for.names, keys.wait_for.timeout, keys.wait_for.into)
    return None


def _flow_named(keys: NodeKeys, parts: Mapping[str, Any], own: bool) -> Callable[..., Any]:
    if keys.flow is None:
        raise InvalidFlow(
            "this key is missing; expected the name of a registered node, or run, sleep, until "
            "or wait_for"
        )
    if own and keys.flow in OWN:
        raise InvalidFlow(
            f"only a node named {keys.flow} can run {keys.flow}; rename the node to {keys.flow}"
        )
    subflow = parts.get(keys.flow)
    return subflow if subflow is not None else _registered(registered_nodes, keys.flow)


def _interface(keys: str | InterfaceKeys | None) -> Interface:
    if isinstance(keys, InterfaceKeys):
        return {"rename": keys.keys_to_rename, "select": keys.keys_to_select}
    resolve(keys)
    return keys


def subflows_of(
    subflows: Mapping[str, ExecutorConfig], faults: FileFaults
) -> dict[str, BranchingFlow]:
    """Return a circular flow's subflows, by name. A subflow executes one of its commands.

    A subflow that cannot be made becomes a fault, and is left out.

    Args:
        subflows: The commands of each subflow, by its name.
    """
    made: dict[str, BranchingFlow] = {}
    for name, config in subflows.items():
        place = ("subflows_config", name, "subflows_config")
        commands = commands_at(place, config.subflows_config, faults)
        with faults.at(*place):
            made[name] = BranchingFlow(commands, name=name)
    return made


def _made(maker: Callable[..., Any], name: str, settings: Mapping[str, Any]) -> Controller:
    try:
        made = maker(**settings)
    except (TypeError, ValueError) as error:
        raise InvalidFlow(
            f"controller {name!r} cannot be made from subflows_config.Controller: {error}"
        ) from error
    if not callable(getattr(made, "decide", None)):
        raise InvalidFlow(
            f"{name!r} is registered as a controller, but returns a {type(made).__name__}; "
            "expected a Controller"
        )
    return made  # type: ignore[no-any-return]


def _accepted(
    maker: Callable[..., Any], name: str, settings: Mapping[str, Any], faults: FileFaults
) -> tuple[dict[str, Any] | None, bool]:
    """Check whether a controller's settings in a flow file fit the controller's parameters.

    Each problem becomes a fault. The value of a misspelt setting is used for the most similar
    parameter, if the file does not set that one.

    Args:
        maker: The function that makes the controller from settings.

    Returns:
        The settings that the controller accepts, or None if a required one is missing. Then whether
            all settings of the file were accepted under their own names.
    """
    parameters = inspect.signature(maker).parameters.values()
    takes = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    needs = {p.name for p in parameters if p.name in takes and p.default is p.empty}
    free = any(p.kind is p.VAR_KEYWORD for p in parameters)
    place = ("subflows_config", "Controller")
    accepted = {key: value for key, value in settings.items() if free or key in takes}
    unknown = [key for key in settings if key not in accepted]
    for key in unknown:
        faults.add(
            (*place, key),
            f"controller {name!r} has no such setting; {suggest(key, [*takes, 'finish'])}",
        )
        meant = nearest(key, [*takes, "finish"])
        if meant in takes and meant is not None and meant not in accepted:
            accepted[meant] = settings[key]
            faults.renamed[*place, meant] = key
    for key in sorted(needs - set(accepted)):
        faults.add((*place, key), f"this key is missing; controller {name!r} requires it")
    return (accepted if needs <= set(accepted) else None), not unknown


def _registered(names: Names[T], name: str) -> T:
    if name in names:
        return names.named(name)
    hint = (
        "If your own module registers it, add the module to flow_modules "
        "(PERDURE_FLOW_MODULES=package.module)"
    )
    try:
        return names.named(name)
    except InvalidFlow as error:
        raise InvalidFlow(f"{error}. {hint}") from error


def _nothing(data: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
    """Stand in for a node's function that is not known yet, or wrong in the file.

    No round calls it, because a flow whose file has faults is never made.
    """
    return {}
