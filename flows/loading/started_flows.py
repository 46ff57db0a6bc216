"""Flows that start other flows: which ones, and whether they do nothing but start each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.flows.commands.flow_command import ChildStart
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.loading.errors import FileFault
from perdure.flows.loading.yaml_flow import FlowStart
from perdure.flows.rings.circular import CircularFlow
from perdure.flows.rings.controller_executor import ControllerExecutorFlow
from perdure.flows.rings.run_node import RunNode
from perdure.flows.rounds import registry
from perdure.flows.rounds.flow import Flow


class _Starts(NamedTuple):
    """The flows that a flow must start.

    Attributes:
        each: whether it starts all of them. Otherwise its controller chooses one.
    """

    flows: Sequence[str]
    each: bool


def faults_of(name: str, starts: Sequence[FlowStart]) -> list[FileFault]:
    """Return the faults of the flows that a flow starts, each at its line.

    All flows must have been loaded before.

    Args:
        name: of the starting flow. Empty if that is not known.
    """
    faults = []
    for start in starts:
        try:
            registry.make(start.flow)
        except registry.FlowNotFound as error:
            more = (
                "A worker can start it if another live worker has it; to check it here, add its "
                "module to flow_modules (PERDURE_FLOW_MODULES=package.module)"
            )
            faults.append(FileFault(start.file, start.line, start.key, f"{error}. {more}"))
            continue
        except InvalidFlow:
            continue  # a fault of that flow, not of this file
        circle = _circle((name, start.flow)) if name else None
        if circle and _circle((name,)):
            faults.append(
                FileFault(
                    start.file,
                    start.line,
                    start.key,
                    f"the flow leads to nothing but itself: {' -> '.join(circle)}. "
                    "Give one of them something else to do",
                )
            )
    return faults


def started_by(flow: Flow) -> list[str]:
    """Return the names of the flows that a flow's commands and nodes start."""
    commands = flow.offered().values() if isinstance(flow, ControllerExecutorFlow) else ()
    functions = [spec.function for spec in commands]
    nodes = [node.flow for node in flow.topology] if isinstance(flow, CircularFlow) else []
    every = [*functions, *nodes]
    return [each.flow for each in every if isinstance(each, ChildStart | RunNode)]


def _circle(path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the circle to which a path of starts must lead.

    Args:
        path: names of flows, of which each starts the next.

    Returns:
        The path, closed by a flow that it already has. None if it can also lead elsewhere.
    """
    if path[-1] in path[:-1]:
        return path
    starts = _starts(path[-1])
    if starts is None:
        return None
    circles = [_circle((*path, name)) for name in starts.flows]
    closed = [circle for circle in circles if circle is not None]
    if starts.each:
        return closed[0] if closed else None
    return closed[0] if closed and len(closed) == len(circles) else None


def _starts(name: str) -> _Starts | None:
    """Return the flows that a flow must start. None if it need not, or is not known here."""
    try:
        flow = registry.make(name)
    except InvalidFlow:
        return None
    return _nodes_of(flow) if not isinstance(flow, ControllerExecutorFlow) else _commands_of(flow)


def _commands_of(flow: ControllerExecutorFlow) -> _Starts | None:
    functions = [spec.function for spec in flow.offered().values()]
    starts = [each.flow for each in functions if isinstance(each, ChildStart)]
    return _Starts(starts, each=False) if starts and len(starts) == len(functions) else None


def _nodes_of(flow: Flow) -> _Starts | None:
    nodes = flow.topology if isinstance(flow, CircularFlow) else ()
    # A list may be empty, which ends a recursion over a tree.
    runs = [each.flow for each in nodes if isinstance(each.flow, RunNode)]
    starts = [each.flow for each in runs if each.for_each is None]
    return _Starts(starts, each=True) if starts else None
