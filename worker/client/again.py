"""The submission of a run once more, as a new run of its flow or of another flow.

Perdure stores results and not code, so a new run uses the workers' current code. To use another
version of a flow, register this version under another name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.worker.domain.run import Run
from perdure.worker.errors import InvalidInput

#: Options of a submission that name nodes.
PAUSES = ("interrupt_before", "interrupt_after")


def options_again(run: Run, flows: Mapping[str, Any], flow: str) -> dict[str, Any]:
    """Return the options for submitting a run once more: labels, model, limits and pauses at nodes.

    Limits and pauses that the run's submission did not choose are left out, because the new run
    gets them from its own flow. Empty options are left out too.

    Args:
        run: The run to submit once more.
        flows: The flows by name, as ``Client.flows`` returns them.
        flow: Name of the new run's flow, which may differ from the run's. Only for a run whose
            submission an earlier release has stored, both flows are looked up in ``flows``.
    """
    details = run.details
    budgets = details.get("budgets", {})
    options: dict[str, Any] = {
        "labels": dict(run.labels),
        "model": details.get("model"),
        "retry": details.get("retry"),
    }
    if "chosen" in details:
        names = details["chosen"]
        limits = {name: budgets[name] for name in budgets if f"budgets.{name}" in names}
        chosen = {name: details[name] for name in ("max_rounds", *PAUSES) if name in names}
    else:
        limits, chosen = _differing(run, flows.get(run.flow, {}), flows.get(flow, {}))
    options["budgets"] = limits
    return {name: value for name, value in options.items() if value} | chosen


def _differing(
    run: Run, own: Mapping[str, Any], other: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the limits and pauses of a run that its submission has probably chosen.

    An earlier release did not store which of them were chosen. So they are compared with the
    defaults of both flows. A limit or a pause counts as chosen if it differs from both defaults.

    Args:
        own: The run's flow. Empty if the flow is not known. Then nothing counts as chosen.
        other: The new run's flow. Empty if the flow is not known, with the same effect.

    Returns:
        The chosen budgets by name, and the other options. Pauses are reduced to nodes that the
            other flow has, and the pauses of the other flow are added.
    """
    details = run.details
    if not own or not other:
        return {}, {}
    limits = {
        name: limit
        for name, limit in details.get("budgets", {}).items()
        if limit not in (own.get("budgets", {}).get(name), other.get("budgets", {}).get(name))
    }
    options: dict[str, Any] = {}
    for name in PAUSES:
        nodes = [node for node in details.get(name, []) if node in other["nodes"]]
        if nodes and details[name] not in (own[name], other[name]):
            options[name] = list(dict.fromkeys([*nodes, *other[name]]))
    limit = details.get("max_rounds")
    if limit not in (None, own.get("max_rounds"), other.get("max_rounds")):
        options["max_rounds"] = limit
    return limits, options


def lost_pauses(options: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the chosen pauses at nodes that a flow does not have, as lists of nodes by option.

    Args:
        options: The options of the new run, from ``options_again``.
        info: The flow, as ``Client.flows`` returns it.

    Returns:
        The nodes by option. Empty if the flow has all nodes.
    """
    found = {
        name: [node for node in options.get(name, []) if node not in info["nodes"]]
        for name in PAUSES
    }
    return {name: nodes for name, nodes in found.items() if nodes}


def lost_pause_text(name: str, nodes: Sequence[str]) -> str:
    """Return a sentence about one option in the result of ``lost_pauses``.

    Args:
        name: The name of the option.
        nodes: The nodes that the flow does not have.
    """
    when = name.removeprefix("interrupt_")
    return (
        f"The run waited for a person {when} {', '.join(nodes)}, which the flow does not have now."
    )


def check_pauses(run: Run, options: Mapping[str, Any], flows: Mapping[str, Any], flow: str) -> None:
    """Raise InvalidInput if a run was submitted with pauses at nodes that the new run's flow lacks.

    Args:
        options: The options of the new run, from ``options_again``.
        flows: The flows by name, as ``Client.flows`` returns them.
        flow: Name of the new run's flow. If it is not in ``flows``, nothing is checked, because the
            submission reports an unknown flow.
    """
    lost = lost_pauses(options, flows[flow]) if flow in flows else {}
    if lost:
        named = ", ".join(f"{name} = {' and '.join(nodes)}" for name, nodes in lost.items())
        raise InvalidInput(
            f"run {run.id} was submitted with {named}; flow {flow!r} has the nodes "
            f"{', '.join(flows[flow]['nodes'])}. Submit a run with other pauses: client.submit, "
            f"perdure submit {flow}, or the form of the dashboard"
        )


def submitted_files(run: Run) -> list[str]:
    """Return the names of the files that were submitted with a run."""
    return [each["file"] for each in run.details.get("files", [])]


def differences(run: Run, info: Mapping[str, Any]) -> list[str]:
    """Return sentences about parts of a run that do not fit its flow as it is now.

    They name inputs, the node and the model of the run that the flow no longer has, and required
    inputs that the run does not have. ``lost_pauses`` finds the pauses.

    Args:
        info: The flow, as ``Client.flows`` returns it.
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
