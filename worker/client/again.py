"""The submission of a run once more: with the same inputs or changed ones, by its flow or another.

Perdure stores results and not code, so a new run uses the workers' current code. Another version of
a flow, registered beside it, has another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.worker.domain.run import Run

#: Budgets of a run that have options of their own.
OWN_OPTIONS = ("cycles", "seconds")


def changed_budgets(run: Run, info: Mapping[str, Any]) -> dict[str, float]:
    """Return a run's budgets that differ from the defaults of a flow (``info``)."""
    return {
        name: limit
        for name, limit in run.details.get("budgets", {}).items()
        if name not in OWN_OPTIONS and limit != info.get("budgets", {}).get(name)
    }


def differences(run: Run, info: Mapping[str, Any]) -> list[str]:
    """Return the differences between a run and its flow now, as sentences.

    They name inputs, the node and the model of the run that the flow no longer has, and required
    inputs that the run does not have.

    Args:
        info: The flow, as ``Client.flows`` describes it.
    """
    found: list[str] = []
    schema = info.get("inputs")
    if schema is not None:
        names = set(schema.get("properties", {}))
        gone = sorted(set(run.inputs) - names)
        added = sorted(set(schema.get("required", ())) - set(run.inputs))
        if gone and schema.get("additionalProperties") is False:
            found.append(f"The flow has no input {', '.join(gone)} now.")
        if added:
            found.append(f"The run had no input {', '.join(added)}, which the flow requires now.")
    if run.state.current_node not in info["nodes"]:
        found.append(f"The flow has no node {run.state.current_node} now.")
    model = run.details.get("model")
    if model and model not in info.get("allowed_models", ()):
        found.append(f"The flow does not allow the model {model} now.")
    return found
