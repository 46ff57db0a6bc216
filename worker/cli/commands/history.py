"""The command ``history``: the checkpoints of a LangGraph run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import engine_here
from perdure.worker.cli.options import json_option, run_argument, url_option
from perdure.worker.cli.target import client_for, known_id
from perdure.worker.presentation.text import moment, plain

if TYPE_CHECKING:
    from perdure.worker.client.api import ClientApi

COLUMNS = ("step", "next", "source", "at", "checkpoint")


class CheckpointInfo(TypedDict):
    """A checkpoint of a LangGraph graph, as JSON data.

    Attributes:
        step: Number of the superstep, from -1 on.
        checkpoint: Id of the checkpoint.
        parent: Id of the checkpoint before this one. None for the first one.
        source: LangGraph's word for its origin: ``input``, ``loop``, ``update`` or ``fork``.
        next: The nodes that run next. Empty if no node follows.
        at: The time of the checkpoint, in ISO 8601.
    """

    step: int
    checkpoint: str
    parent: str | None
    source: str
    next: list[str]
    at: str


@click.command("history")
@run_argument
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="The most checkpoints to list.",
)
@json_option
@url_option
def history_command(run_id: str, limit: int, as_json: bool, url: str | None) -> None:
    """List the checkpoints of RUN, a run of a LangGraph graph, newest first.

    The module of the graph must be among flow_modules (PERDURE_FLOW_MODULES). Needs the extra
    `langgraph`. For the history of other runs, see `perdure show RUN --transcript`.
    """
    with client_for(url) as client:
        found = checkpoints(client, known_id(client, run_id), limit)
    if as_json:
        output.document(found)
        return
    rows = [
        (
            str(each["step"]),
            plain(", ".join(each["next"])),
            plain(each["source"]),
            moment(each["at"]),
            each["checkpoint"],
        )
        for each in found
    ]
    output.table(COLUMNS, rows, "next", "the run has no checkpoint yet", ("source", "at"))


def checkpoints(client: ClientApi, run_id: str, limit: int) -> list[CheckpointInfo]:
    """Return the ``limit`` newest checkpoints of a run's LangGraph graph, newest first.

    Checkpoints of subgraphs are left out. The graph is that of this process, so its flow modules
    are imported.

    Raises:
        RunNotFound: No run has this id.
        InvalidInput: The run's flow is not a graph, or the graph keeps no history.
        UnknownFlow: This process does not know the run's flow.
        InvalidFlow: The extra ``langgraph`` is not installed, or a flow module cannot be imported.
    """
    flow = client.get(run_id).flow
    _register_flows()
    graph_of = _graph_reader(run_id, flow)
    from perdure.flows.rounds.registry import FlowNotFound
    from perdure.worker.errors import UnknownFlow

    try:
        graph = graph_of(client, run_id)
    except FlowNotFound as error:
        raise UnknownFlow(
            f"the history of run {run_id} is read with the graph of its flow {flow!r}, which this "
            "process does not know. Name its module in flow_modules (PERDURE_FLOW_MODULES), or run "
            f"this where its workers run. {error}"
        ) from error
    return [_info(state) for state in graph.get_state_history(graph.config, limit=limit)]


def _register_flows() -> None:
    """Register the flows of the user's Celery app. Without such an app, those of the settings."""
    engine = engine_here()
    if engine is not None:
        engine.find_flows()
        return
    from perdure.worker.flow_registration import find_flows
    from perdure.worker.settings import load_settings

    find_flows(load_settings())


def _graph_reader(run_id: str, flow: str) -> Any:
    """Import and return the function ``perdure.flows.adapters.graph_reader.graph_of``.

    It makes a graph that reads a run's checkpoints. ``run_id`` and ``flow`` are for the error text.

    Raises:
        InvalidFlow: The extra ``langgraph`` is not installed.
    """
    from perdure.flows.core.errors import InvalidFlow
    from perdure.flows.rounds.registry import EXTRAS

    try:
        from perdure.flows.adapters.graph_reader import graph_of
    except ModuleNotFoundError as error:
        if EXTRAS.get((error.name or "").partition(".")[0]) != "langgraph":
            raise
        raise InvalidFlow(
            f"run {run_id} is of the flow {flow!r}. The checkpoints of a LangGraph graph are read "
            "with the extra `langgraph`, which is not installed here: "
            "pip install 'perdure[langgraph]'. For the history of other runs: "
            f"perdure show {run_id} --transcript"
        ) from error
    return graph_of


def _info(state: Any) -> CheckpointInfo:
    """Return the fields of ``state``, a ``StateSnapshot`` of LangGraph, that are listed."""
    parent = state.parent_config and state.parent_config["configurable"]["checkpoint_id"]
    return {
        "step": state.metadata["step"],
        "checkpoint": state.config["configurable"]["checkpoint_id"],
        "parent": parent or None,
        "source": state.metadata["source"],
        "next": list(state.next),
        "at": state.created_at,
    }
