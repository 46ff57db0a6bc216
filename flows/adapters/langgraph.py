"""Graphs of LangGraph as flows: each superstep is a round, and the checkpoints belong to the run.

``register_graph`` makes the flow, ``graph_of`` reads the states of a run, and ``fork`` starts a new
run from one of these states.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from perdure.flows.adapters.graph_checks import all_graphs, check_graph, types_of
from perdure.flows.adapters.graph_flow import GraphFlow, has_messages, takes_goal
from perdure.flows.adapters.graph_forks import fork
from perdure.flows.adapters.graph_nodes import START
from perdure.flows.adapters.graph_reader import graph_of
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.names import Role, suggest
from perdure.flows.rounds.answer_texts import AnswerText, check_answer_text
from perdure.flows.rounds.registry import register

__all__ = ["GraphFlow", "fork", "graph_of", "register_graph"]

#: The settings of a flow that ``register_graph`` takes.
_SETTINGS = (
    "Inputs", "budgets", "description", "expose", "keep_events", "keep_turns", "lease_seconds",
    "max_rounds", "on_misfit", "retry", "round_timeout_seconds",
)  # fmt: skip


def register_graph(
    name: str,
    graph: StateGraph[Any, Any, Any, Any] | CompiledStateGraph[Any, Any, Any, Any],
    *,
    idempotent: Collection[str] | bool = (),
    types: Sequence[type] = (),
    role: Role = "executor",
    context: Any = None,
    history: bool = True,
    stream: bool = False,
    thread: Literal["state", "none"] = "state",
    text: AnswerText | None = None,
    **settings: Any,
) -> type[GraphFlow]:
    """Register a graph as a flow. Its output is the answer of the run.

    The inputs of a run are the input of the graph. If the graph has the key ``goal``, it gets the
    goal, else the key ``messages`` gets it as the first message.

    Args:
        name: the name of the flow.
        graph: the graph, or its builder. A checkpointer of the graph is not used.
        idempotent: names of the nodes, also of subgraphs, that may run again after their worker
            was lost. True: all. Any other node is then in doubt, and a person is asked.
        types: classes of values in the state which the annotations of its schema do not name.
        role: the role of the workers that execute the rounds.
        context: the ``context`` with which the graph is invoked.
        history: whether runs keep the state after each superstep, for ``graph_of`` and ``fork``.
        stream: whether the library requests a stream from all models of the graph, to show their
            replies while they arrive. False: only replies of models that stream by themselves are
            shown.
        thread: ``state``: a run in a thread begins with the state of the run before it or with the
            earlier messages, and reads messages from people. ``none``: it does neither.
        text: the text that people see of the answer in chats, over MCP and in threads: a key of the
            output, or a function that converts the output to a text. None: the last text of the
            model, if the output has ``messages``, else JSON.
        settings: attributes of the flow: ``budgets``, ``retry``, ``max_rounds``, ``Inputs``, ...

    Raises:
        InvalidFlow: the name, a setting or a part of the graph is not valid.
    """
    if isinstance(graph, StateGraph):
        graph = graph.compile()
    if not isinstance(graph, CompiledStateGraph):
        raise InvalidFlow(
            f"graph {name!r}: expected a StateGraph, got {type(graph).__name__}. Call anything "
            "else in a step of a workflow"
        )
    _check_settings(name, settings)
    if thread not in ("state", "none"):
        raise InvalidFlow(f"graph {name!r}: thread is {thread!r}; expected 'state' or 'none'")
    check_answer_text(text, f"graph {name!r}")
    graphs = list(all_graphs(graph))
    for each in graphs:
        check_graph(name, each)
    idempotent_nodes = None if idempotent is True else frozenset(idempotent or ())
    _check_idempotent(name, idempotent_nodes or (), graphs)
    attributes = {
        "graph": graph,
        "idempotent": idempotent_nodes,
        "types": frozenset(types_of(types, graphs)),
        "role": role,
        "graph_context": context,
        "keeps_history": history,
        "streams": stream,
        "follows_thread": thread == "state",
        "text": text if text is None or isinstance(text, str) else staticmethod(text),
        "description": f"The graph {graph.name or name}.",
        "needs_goal": takes_goal(graph),
        "reads_messages": thread == "state" and has_messages(graph),
        "__module__": __name__,
        **settings,
    }
    flow = type(f"{name}_graph", (GraphFlow,), attributes)
    register(name)(flow)
    return flow


def _check_settings(name: str, settings: Iterable[str]) -> None:
    """Raise InvalidFlow if ``register_graph`` has no such setting."""
    for setting in settings:
        if setting not in _SETTINGS:
            raise InvalidFlow(
                f"graph {name!r} has no setting {setting!r}; it has {', '.join(_SETTINGS)}"
            )


def _check_idempotent(
    name: str,
    idempotent_nodes: Iterable[str],
    graphs: Iterable[Pregel[Any, Any, Any, Any]],
) -> None:
    """Raise InvalidFlow if none of the graphs has an idempotent node of this name."""
    nodes = {node for graph in graphs for node in graph.nodes if node != START}
    for node in idempotent_nodes:
        if node not in nodes:
            raise InvalidFlow(
                f"graph {name!r}: idempotent names the unknown node {node!r}; "
                f"{suggest(node, nodes)}"
            )
