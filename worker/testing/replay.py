"""Replay of a workflow: whether the code of this process fits the past of a run."""

from __future__ import annotations

from typing import Any

from perdure.flows.core.outcomes import Command, Turn
from perdure.flows.rounds import registry
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.workflow_flow import WorkflowFlow
from perdure.worker.client.api import ClientApi
from perdure.worker.errors import ArtifactNotFound, InvalidInput, UnknownFlow


def check_replay(client: ClientApi, run_id: str, *, deps: Any = None) -> int:
    """Check whether a workflow's code fits a run's journal.

    The workflow's function runs as in the run's next round, with the code of this process. Nothing
    is carried out: earlier results come from the journal. So a test shows before a deployment
    whether a change fits runs that are live or have ended.

    Args:
        client: A client of the run's server.
        run_id: The run's id. The run does not change.
        deps: The value of ``steps.deps``. No lifespan is opened.

    Returns:
        The number of entries of the run's journal.

    Raises:
        Diverged: The function does not follow the journal.
        FatalError: The function raised an error. For a run that ended with this error, that is no
            divergence.
        InvalidInput: The run's flow is no workflow, or it does not accept the run's inputs.
        UnknownFlow: This process does not know the run's flow.
        RunNotFound: No run has this id.
    """
    document = client.transcript(run_id)
    run = document["run"]
    try:
        flow = registry.make(run["flow"])
    except registry.FlowNotFound as error:
        raise UnknownFlow(f"run {run_id} cannot be replayed: {error}") from error
    if not isinstance(flow, WorkflowFlow):
        raise InvalidInput(
            f"run {run_id} is of flow {flow.name!r}, which is no workflow: nothing of its past is "
            "run again, so there is nothing to replay"
        )
    history = [
        Turn(None if each["command"] is None else Command(**each["command"]), each["observation"])
        for each in document["history"]
    ]

    def artifact(name: str) -> str:
        try:
            return client.artifact(run_id, name)
        except ArtifactNotFound as error:
            raise KeyError(name) from error

    context = RoundContext(
        goal=run["goal"],
        inputs=flow.check_inputs(run["inputs"]),
        run_id=run_id,
        node=flow.first_node,
        step=len(history),
        history=history,
        artifact=artifact,
        deps=deps,
    )
    return flow.replay(context)
