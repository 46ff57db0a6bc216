"""The submission of a run once more: with the same inputs or changed ones, by its flow or another.

Perdure stores results and not code, so a new run uses the workers' current code. Another version of
a flow, registered beside it, has another name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.worker.domain.run import Run
from perdure.worker.errors import InvalidInput

#: Options of a submission that name nodes.
PAUSES = ("interrupt_before", "interrupt_after")


def options_again(run: Run, flows: Mapping[str, Any], flow: str) -> dict[str, Any]:
    """Return the options that submit a run once more: labels, model, limits and pauses at nodes.

    Limits and pauses that the run's submission did not choose are left out: the new run has them
    from its own flow.

    Args:
        flows: The flows by name, as ``Client.flows`` describes them.
        flow: Name of the new run's flow.
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
    """Return the budgets and other options of a run that were probably chosen.

    An earlier release did not store which were chosen. So they are the limits that differ from the
    flows' defaults, and the pauses, in addition to those of the new run's flow.

    Args:
        own: The run's flow. Empty if it is not known: then nothing can be compared.
        other: The new run's flow.
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
    """Return the chosen pauses at nodes that a flow (``info``) does not have, by option."""
    found = {
        name: [node for node in options.get(name, []) if node not in info["nodes"]]
        for name in PAUSES
    }
    return {name: nodes for name, nodes in found.items() if nodes}


def lost_pause_text(name: str, nodes: Sequence[str]) -> str:
    """Return a sentence about the nodes of ``lost_pauses`` for one option (``name``)."""
    when = name.removeprefix("interrupt_")
    return (
        f"The run waited for a person {when} {', '.join(nodes)}, which the flow does not have now."
    )


def check_pauses(run: Run, options: Mapping[str, Any], flows: Mapping[str, Any], flow: str) -> None:
    """Raise InvalidInput if a run was submitted with pauses at nodes that the flow lacks.

    Args:
        options: The options of the new run, from ``options_again``.
        flows: The flows by name, as ``Client.flows`` describes them.
        flow: Name of the new run's flow. A submission reports a flow that is not known.
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
    """Return the differences between a run and its flow now, as sentences.

    They name inputs, the node and the model of the run that the flow no longer has, and required
    inputs that the run does not have. For pauses see ``lost_pauses``.

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
