"""What a written flow names, found: commands, a controller, and the nodes of a ring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from flows.branching import BranchingFlow
from flows.circular import Node
from flows.commands import CommandSpec, registered_commands, spec_of
from flows.config import CommandConfig, ControllerConfig, ExecutorConfig, SubflowsConfig
from flows.controller_executor import ControllerExecutorFlow
from flows.controllers import Controller, InvalidController, registered_controllers
from flows.definition import known
from flows.errors import InvalidFlow
from flows.executors.mcp.declaration import ServerConfig
from flows.interfaces import Interface, resolve
from flows.names import Names
from flows.nodes import registered_nodes
from flows.written.faults import Faults, Place
from flows.written.keys import InterfaceKeys, NodeKeys
from flows.written.mending import nearest

T = TypeVar("T")

#: The two nodes that every controller_executor ring has.
OWN = {node.name: node for node in ControllerExecutorFlow.topology}


def commands_at(place: Place, chosen: Mapping[str, CommandConfig] | Sequence[str], faults: Faults) -> list[CommandSpec]:
    """The registered commands named at ``place``, under the descriptions given there."""
    import flows.executors  # noqa: F401  those that ship; of all who know flows, only those written in YAML need them

    named = chosen if isinstance(chosen, Mapping) else {name: CommandConfig() for name in chosen}
    found = []
    for position, (name, config) in enumerate(named.items()):
        here = (*place, name) if isinstance(chosen, Mapping) else (*place, position)
        with faults.at(*here, key=isinstance(chosen, Mapping)):
            if name == "finish":
                raise InvalidFlow("'finish' is the command that ends the run; it is configured under Controller, and always there")
            found.append(replace(spec_of(_registered(registered_commands, name)), name=name).configured(config.said))
    return found


def tools_at(place: Place, servers: Mapping[str, ServerConfig], faults: Faults) -> list[CommandSpec]:
    """The commands that tools of MCP servers are; no server is started."""
    from flows.executors.mcp.commands import commands_of_server

    found: list[CommandSpec] = []
    for name, server in servers.items():
        with faults.at(*place, name):
            found += commands_of_server(name, server)
    return found


def also_choosing(config: SubflowsConfig, commands: Sequence[CommandSpec]) -> SubflowsConfig:
    """The same, and the Executor offers these commands too."""
    chosen = {**config.Executor.chosen, **{spec.name: CommandConfig() for spec in commands}}
    return config.model_copy(update={"Executor": config.Executor.model_copy(update={"subflows_config": chosen})})


def controller_named(name: str, config: ControllerConfig, faults: Faults) -> Controller | None:
    """The registered controller of this name, made with what its configuration says beside ``finish``."""
    import flows.controllers.model  # noqa: F401  it ships; of all who know flows, only those written in YAML need it

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
                if as_written:  # else it may follow from the settings that were left out
                    raise
    return made


def ring_of(nodes: Sequence[NodeKeys], parts: Mapping[str, Any], faults: Faults, own: bool) -> list[Node]:
    """The ring that ``topology`` describes.

    Args:
        parts: what the file itself calls a flow, by name; beside it, a node's ``flow`` names a registered node function.
        own: it is a controller_executor ring, which has a Controller before an Executor.
    """
    names = [keys.name for keys in nodes]
    for position, name in enumerate(names):
        if name in names[:position]:
            faults.add(("topology", position, "name"), f"two nodes are named {name!r}; names must differ")
    whole = not own or [name for name in names if name in OWN] == list(OWN)
    if not whole and faults.nodes_are_known:
        faults.add(("topology",), f"expected one node named Controller, and after it one named Executor; there are: {', '.join(names)}")
    return [_node(("topology", position), keys, parts, faults, own, whole) for position, keys in enumerate(nodes)]


def _node(place: Place, keys: NodeKeys, parts: Mapping[str, Any], faults: Faults, own: bool, whole: bool) -> Node:
    base = OWN[keys.name] if own and keys.name in OWN else Node(keys.name, _nothing)
    given: dict[str, Any] = {key: getattr(keys, key) for key in ("goal", "reset", "role") if getattr(keys, key) is not None}
    if keys.retry is not None:
        given["retry"] = keys.retry.made()
    for key in ("input_interface", "output_interface"):
        if key in keys.model_fields_set:
            with faults.at(*place, key):
                given[key] = _interface(getattr(keys, key))
    if base.flow is _nothing and keys.flow is None and not whole:
        pass  # it may be meant for the Controller or the Executor that is missing, as is told
    elif base.flow is _nothing and keys.flow not in parts and ("subflows_config",) in faults.blamed:
        pass  # it may be one of the subflows, which could not be read
    elif base.flow is _nothing:
        with faults.at(*place, "flow"):
            given["flow"] = _played_by(keys, parts, own)
    elif keys.flow not in (None, keys.name):
        faults.add((*place, "flow"), f"the node {keys.name} is played by {keys.name}; leave flow out, or name the node otherwise")
    return replace(base, **given)


def _played_by(keys: NodeKeys, parts: Mapping[str, Any], own: bool) -> Callable[..., Any]:
    if keys.flow is None:
        raise InvalidFlow("this key is missing; expected the name of a registered node")
    if own and keys.flow in OWN:
        raise InvalidFlow(f"{keys.flow} is played by the node of that name alone; name the node {keys.flow}")
    found = parts.get(keys.flow)
    return found if found is not None else _registered(registered_nodes, keys.flow)


def _interface(keys: str | InterfaceKeys | None) -> Interface:
    if isinstance(keys, InterfaceKeys):
        return {"rename": keys.keys_to_rename, "select": keys.keys_to_select}
    resolve(keys)
    return keys


def subflows_of(subflows: Mapping[str, ExecutorConfig], faults: Faults) -> dict[str, BranchingFlow]:
    """Each subflow of a circular flow: a choice of registered commands."""
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
        raise InvalidFlow(f"controller {name!r} cannot be made from subflows_config.Controller: {error}") from error
    if not callable(getattr(made, "decide", None)):
        raise InvalidFlow(f"{name!r} is registered as a controller, but makes a {type(made).__name__}; expected a Controller")
    return made  # type: ignore[no-any-return]


def _accepted(maker: Callable[..., Any], name: str, settings: Mapping[str, Any], faults: Faults) -> tuple[dict[str, Any] | None, bool]:
    """The settings that the controller takes, None where it misses one, and whether they are all that was written.

    Adds a fault for each that it does not know or misses. The value of a misspelt one is checked as that of the nearest.
    """
    parameters = inspect.signature(maker).parameters.values()
    takes = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    needs = {p.name for p in parameters if p.name in takes and p.default is p.empty}
    free = any(p.kind is p.VAR_KEYWORD for p in parameters)
    place = ("subflows_config", "Controller")
    accepted = {key: value for key, value in settings.items() if free or key in takes}
    unknown = [key for key in settings if key not in accepted]
    for key in unknown:
        faults.add((*place, key), f"controller {name!r} has no setting of this name; {known(key, [*takes, 'finish'])}")
        meant = nearest(key, [*takes, "finish"])
        if meant in takes and meant is not None and meant not in accepted:
            accepted[meant] = settings[key]
            faults.renamed[*place, meant] = key
    for key in sorted(needs - set(accepted)):
        faults.add((*place, key), f"this key is missing; controller {name!r} needs it")
    return (accepted if needs <= set(accepted) else None), not unknown


def _registered(names: Names[T], name: str) -> T:
    if name in names:
        return names.named(name)
    hint = "If a module of yours registers it, add the module to flow_modules (HOLDFAST_FLOW_MODULES=package.module)"
    try:
        return names.named(name)
    except InvalidFlow as error:
        raise InvalidFlow(f"{error}. {hint}") from error


def _nothing(given: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
    """Stands where a fault was found; such a flow is never made."""
    return {}
