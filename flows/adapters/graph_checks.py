"""Checks of a LangGraph graph: its subgraphs, unsupported features, and types of its state."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, get_args, get_type_hints

from langgraph.pregel import Pregel
from pydantic import BaseModel

from perdure.flows.adapters.graph_checkpoints import Namespace, is_under_way
from perdure.flows.core.errors import CodeDoesNotFit, InvalidFlow


def all_graphs(graph: Pregel[Any, Any, Any, Any]) -> Iterable[Pregel[Any, Any, Any, Any]]:
    """Yield a graph and its subgraphs, at any depth."""
    yield graph
    for node in graph.nodes.values():
        if isinstance(node.bound, Pregel):
            yield from all_graphs(node.bound)


def check_fits(graph: Pregel[Any, Any, Any, Any], spaces: Mapping[str, Namespace]) -> None:
    """Raise CodeDoesNotFit if a graph lacks a pending node of its run.

    The library leaves out the task of such a node, so the graph would end without it.

    Args:
        spaces: the checkpoints of the run, by namespace.
    """
    graphs = dict(_by_path(graph))
    for name, space in spaces.items():
        path = "|".join(part.partition(":")[0] for part in name.split("|"))
        if path not in graphs or not is_under_way(space, spaces):
            continue
        tasks = [each.node for each in space.tasks.values() if each.node and not each.is_finished]
        next_nodes = [
            channel.removeprefix(BRANCH)
            for channel, stored in space.channels.items()
            if channel.startswith(BRANCH) and stored.texts is not None
        ]
        known = graphs[path].nodes
        for node in [*tasks, *next_nodes]:
            if node not in known:
                here = ", ".join(each for each in known if not each.startswith("__"))
                raise CodeDoesNotFit(
                    f"the run has come to the node {node!r}, which the graph does not have any "
                    f"more; it has: {here}. Nothing was carried out. Deploy a version that has the "
                    "node",
                    is_of_other_code=True,
                )


#: Prefix of the channels that choose the next nodes.
BRANCH = "branch:to:"


def _by_path(
    graph: Pregel[Any, Any, Any, Any], path: str = ""
) -> Iterator[tuple[str, Pregel[Any, Any, Any, Any]]]:
    """Yield a graph and all its subgraphs, with their paths.

    A path has the names of the nodes that contain the subgraph, with ``|`` between them.
    """
    yield path, graph
    for name, node in graph.nodes.items():
        if isinstance(node.bound, Pregel):
            yield from _by_path(node.bound, f"{path}|{name}" if path else name)


def check_graph(name: str, graph: Pregel[Any, Any, Any, Any]) -> None:
    """Raise InvalidFlow if a graph uses a feature that runs do not support."""
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        raise InvalidFlow(
            f"graph {name!r} has breakpoints (interrupt_before, interrupt_after), which a run does "
            "not have. Call interrupt(...) in the node"
        )
    if "__root__" in graph.channels:
        raise InvalidFlow(
            f"graph {name!r}: its state has no keys; expected a TypedDict, a dataclass or a model"
        )
    for channel, spec in graph.channels.items():
        if type(spec).__name__ == "DeltaChannel":
            raise InvalidFlow(
                f"graph {name!r}: {channel!r} is a DeltaChannel, which a run cannot store. Use a "
                "list with a reducer: of it, only new items are written too"
            )
    for node, own in graph.nodes.items():
        if getattr(own, "timeout", None) is not None:
            raise InvalidFlow(
                f"graph {name!r}: the node {node!r} has a timeout, which a run does not have. Set "
                "round_timeout_seconds of register_graph"
            )


def types_of(
    named: Sequence[type], graphs: Sequence[Pregel[Any, Any, Any, Any]]
) -> Iterable[tuple[str, str]]:
    """Yield the classes that values of a graph's state may have, as module and name.

    A ``StateSerializer`` with these classes stores and loads the values. The classes are those in
    ``named``, and the pydantic models, dataclasses, enums and named tuples in the schemas of the
    graphs.
    """
    seen: set[Any] = set()
    left: list[Any] = [*named]
    for graph in graphs:
        builder = getattr(graph, "builder", None)
        for schema in ("state_schema", "input_schema", "output_schema"):
            left += get_type_hints(getattr(builder, schema, None) or object).values()
        for node in getattr(builder, "nodes", {}).values():
            left += get_type_hints(getattr(node, "input_schema", None) or object).values()
    while left:
        kind = left.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        left += get_args(kind)
        if not isinstance(kind, type):
            continue
        is_data = issubclass(kind, BaseModel | Enum) or dataclasses.is_dataclass(kind)
        if is_data or kind in named or hasattr(kind, "_fields"):
            yield kind.__module__, kind.__name__
        if (is_data or hasattr(kind, "__annotations__")) and not issubclass(kind, Enum):
            left += get_type_hints(kind).values()
