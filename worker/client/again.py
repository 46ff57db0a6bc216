"""The submission of a run once more: with the same inputs or changed ones, by its flow or another.

Perdure stores results and not code, so a new run uses the workers' current code. Another version of
a flow, registered beside it, has another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.worker.domain.run import Run

#: Options of a submission that name nodes.
PAUSES = ("interrupt_before", "interrupt_after")


def options_again(run: Run, flows: Mapping[str, Any], flow: str) -> dict[str, Any]:
    """Return the options that submit a run once more: labels, model, limits and pauses at nodes.

    Limits and pauses that the run has from its flow are left out: the new run has them from its
    own flow.

    Args:
        flows: The flows by name, as ``Client.flows`` describes them.
        flow: Name of the new run's flow.
    """
    details = run.details
    own, other = flows.get(run.flow, {}), flows.get(flow, {})

    def is_chosen(name: str) -> bool:
        return name in details and details[name] not in (own.get(name), other.get(name))

    options: dict[str, Any] = {
        "labels": dict(run.labels),
        "model": details.get("model"),
        "budgets": {
            name: limit
            for name, limit in details.get("budgets", {}).items()
            if limit not in (own.get("budgets", {}).get(name), other.get("budgets", {}).get(name))
        },
        "retry": details.get("retry"),
    }
    chosen = {name: details[name] for name in ("max_rounds", *PAUSES) if is_chosen(name)}
    return {name: value for name, value in options.items() if value} | chosen


def submitted_files(run: Run) -> list[str]:
    """Return the names of the files that were submitted with a run."""
    return [each["file"] for each in run.details.get("files", [])]


def differences(run: Run, info: Mapping[str, Any]) -> list[str]:
    """Return the differences between a run and its flow now, as sentences.

    They name inputs, nodes and the model of the run that the flow no longer has, and required
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
    for when, name in zip(("before", "after"), PAUSES, strict=True):
        gone = [node for node in run.details.get(name, []) if node not in info["nodes"]]
        if gone:
            found.append(
                f"The run waited for a person {when} {', '.join(gone)}, which the flow does not "
                "have now."
            )
    model = run.details.get("model")
    if model and model not in info.get("allowed_models", ()):
        found.append(f"The flow does not allow the model {model} now.")
    return found
