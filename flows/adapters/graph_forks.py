"""Forks of LangGraph runs: new runs from an earlier state of another run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.flows.adapters.graph_checkpoints import Namespace
from perdure.flows.adapters.graph_flow import NODE
from perdure.flows.adapters.graph_history import GraphHistory, Moment, closed
from perdure.flows.adapters.graph_reader import RunsClient, RunStates, flow_of
from perdure.flows.adapters.graph_start import FORK, packed
from perdure.flows.adapters.graph_values import StateSerializer
from perdure.flows.core.errors import InvalidInput, PerdureError
from perdure.flows.core.json_values import canonical
from perdure.flows.rounds.context import RoundContext


def fork(
    client: RunsClient,
    run_id: str,
    at: int | str | Mapping[str, Any],
    values: Any = None,
    *,
    as_node: str | None = None,
    goal: str | None = None,
    **options: Any,
) -> Any:
    """Submit a run that continues an earlier state of another run.

    The other run does not change. If the superstep had asked a person, its finished nodes do not
    run again, and the question is asked again. Otherwise all its nodes run.

    Args:
        client: a client of the server that has the other run.
        run_id: the id of the other run, which may have ended.
        at: number of the superstep, as ``metadata["step"]`` of a state, or the id of a checkpoint,
            or the ``config`` of a state.
        values: the values to write to the state, as with ``update_state`` of the library.
        as_node: the node that counts as the writer of ``values``. None: the last node that ran.
        goal: the new run's goal, for people. None: the other run's goal. The state does not change.
        options: the options of ``client.submit``: ``idempotency_key``, ``labels``, ``budgets``, ...

    Returns:
        The new run.

    Raises:
        InvalidInput: the run has no such state, no node follows it, or the state is too large.
        FlowNotFound: the run's flow is not registered in this process.
        RunNotFound: no run has this id.
    """
    flow, run = flow_of(client, run_id)
    states = RunStates(client, run_id, flow)
    name, checkpoint = _found(states.history(), run_id, at)
    moment = _moment(states, name, checkpoint)
    what = f"the fork of run {run_id} at {at}"
    step = moment.entries[name]["metadata"].get("step")
    spaces = {
        each: Namespace.of(closed(entry), states.artifact) for each, entry in moment.entries.items()
    }
    given = {
        "run": run_id,
        "namespace": name,
        "checkpoint": checkpoint,
        "step": step,
        "is_partial": moment.is_partial,
        "state": packed(spaces),
    }
    goal = run.goal if goal is None else goal
    try:
        if values is not None or as_node is not None:
            given["values"] = StateSerializer(flow.types).encode(values, "the update")
            given["as_node"] = as_node
        inputs = flow.check_inputs({FORK: given})
        _check_size(client, inputs, what)
        # A trial of the first round, which writes nothing yet.
        flow.play(NODE, RoundContext(goal, inputs, run_id=run_id))
    except InvalidInput:
        raise
    except Exception as error:
        words = (
            str(error) if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
        )
        raise InvalidInput(f"{what} is not possible: {words}") from error
    return client.submit(flow.name, goal, inputs, **options)


def _found(
    history: GraphHistory, run_id: str, at: int | str | Mapping[str, Any]
) -> tuple[str, str]:
    """Return the namespace and the id of a checkpoint. ``at`` names it, as in ``fork``.

    Raises:
        InvalidInput: the run has no such state.
    """
    if isinstance(at, Mapping):
        place = at.get("configurable", {})
        key = (place.get("checkpoint_ns", ""), place.get("checkpoint_id", ""))
        if key in history.states and place.get("thread_id", run_id) == run_id:
            return key
    else:
        for name, checkpoint in reversed(history.states):
            step = history.states[name, checkpoint].versions[-1]["metadata"].get("step")
            if checkpoint == at or (not name and not isinstance(at, bool) and step == at):
                return name, checkpoint
    steps = [
        state.versions[-1]["metadata"].get("step")
        for (name, _), state in history.states.items()
        if not name
    ]
    raise InvalidInput(
        f"run {run_id} has no state {at!r}. "
        + (f"Its supersteps are {steps[0]} to {steps[-1]}" if steps else "It has none yet")
        + "; graph_of(client, run_id).get_state_history lists its states"
    )


def _moment(states: RunStates, name: str, checkpoint: str) -> Moment:
    """Return the moment at which a fork begins.

    It is the first moment of the checkpoint at which a question waits for a person. Without such a
    moment, it is the first moment of the checkpoint.
    """
    found = states.history().moments_at(name, checkpoint)
    for moment in found:
        for entry in moment.entries.values():
            if Namespace.of(closed(entry), states.artifact).asks:
                return moment
    return found[0]


def _check_size(client: RunsClient, inputs: Mapping[str, Any], what: str) -> None:
    """Raise InvalidInput if a fork's inputs are too large.

    The limit is ``max_addition_bytes``. A client over HTTP does not know the limit, so nothing is
    checked here. Its server then rejects the submission.
    """
    settings = getattr(client, "settings", None)
    limit = getattr(settings, "max_addition_bytes", None)
    size = len(canonical(inputs).encode())
    if limit is not None and size > limit:
        raise InvalidInput(
            f"{what}: its state takes {size} bytes, compressed; the limit for the inputs of a run "
            f"is {limit} (max_addition_bytes). Fork at an earlier superstep, or raise the limit"
        )
