"""Check of the flows that a flow starts: are they known, and do they only start each other?"""

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
        flows: the names of the started flows.
        each: whether the flow starts all of them. Otherwise its controller chooses one.
    """

    flows: Sequence[str]
    each: bool


def faults_of(name: str, starts: Sequence[FlowStart]) -> list[FileFault]:
    """Return a fault for each started flow that is unknown or leads to nothing but itself.

    A started flow that is itself invalid is skipped. All flows must have been loaded before.

    Args:
        name: the name of the starting flow. If it is empty, only unknown flows are faults.
        starts: the started flows, with the lines that name them.
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
    """Return the names of the flows that a flow's commands and nodes start.

    Only ``CircularFlow`` and ``ControllerExecutorFlow`` have such commands and nodes.
    """
    commands = flow.offered().values() if isinstance(flow, ControllerExecutorFlow) else ()
    functions = [spec.function for spec in commands]
    nodes = [node.flow for node in flow.topology] if isinstance(flow, CircularFlow) else []
    every = [*functions, *nodes]
    return [each.flow for each in every if isinstance(each, ChildStart | RunNode)]


def _circle(path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return a circle of flows to which a path of starts must lead.

    Args:
        path: names of flows. Each starts the next.

    Returns:
        The path, extended until it ends with a flow that it already has. None if the last flow of
            the path can end without a circle.
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
    """Return the flows that a flow must start.

    Returns:
        None if the flow can run without starting another, or is unknown or invalid here.
    """
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
