"""What a worker says of a flow, so that clients without its code can submit it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flows import registry
from flows.base import Flow
from flows.errors import InvalidInput


def describe(flow: Flow) -> dict[str, Any]:
    """The flow as JSON data: where it starts, its limits, the schema of its inputs."""
    return {
        "description": flow.description,
        "first": flow.first_node,
        "nodes": dict(flow.nodes),
        "max_rounds": flow.max_rounds,
        "interrupt_before": list(flow.interrupt_before),
        "interrupt_after": list(flow.interrupt_after),
        "lease_seconds": flow.lease_seconds,
        "round_timeout_seconds": flow.round_timeout_seconds,
        "runs_shell": flow.runs_shell,
        "shipped": registry.is_shipped(flow.name),
        "budgets": dict(flow.budgets),
        "missing": [flow.missing] if flow.missing else [],
        "inputs": flow.Inputs.model_json_schema() if flow.Inputs else None,
    }


def shown(flows: Mapping[str, dict[str, Any]], enabled: Iterable[str] = (), also: str = "") -> dict[str, dict[str, Any]]:
    """Return the flows that a list shows: those that came with Holdfast only if they are enabled, or there are no others.

    Args:
        enabled: names of flows that the settings enable. also: a flow that is shown anyhow.
    """
    enabled = {*enabled, also}
    found = {
        name: flow for name, flow in flows.items() if not flow.get("shipped") or name in enabled or (flow["runs_shell"] and flow["workers"])
    }
    return found if any(not flow.get("shipped") for flow in found.values()) else dict(flows)


def check_announced(name: str, schema: dict[str, Any] | None, inputs: dict[str, Any]) -> None:
    """Check what a client without the flow's code can: that all required inputs are there and none is unknown.

    The worker validates the values themselves before the first round.

    Raises:
        InvalidInput: naming what is missing or unknown, and what is expected.
    """
    if schema is None:
        return
    known = schema.get("properties", {})
    missing = [key for key in schema.get("required", []) if key not in inputs]
    unknown = [] if schema.get("additionalProperties") else [key for key in inputs if key not in known]
    faults = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(unknown)}"] * bool(unknown)
    if faults:
        raise InvalidInput(f"flow {name!r} does not accept these inputs: {'; '.join(faults)}. It expects: {', '.join(known) or 'none'}")
