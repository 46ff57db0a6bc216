"""Building of flows from files.

The keys of a file are validated, and the names in the file are looked up. All faults are reported
together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from perdure.flows.core.budgets import check_budgets
from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.names import is_name, suggest
from perdure.flows.loading.errors import FileFaults, shown_path
from perdure.flows.loading.parse import read_bytes, read_text
from perdure.flows.loading.resolve import (
    OWN,
    also_choosing,
    commands_at,
    controller_named,
    lifespan_named,
    own_commands_of,
    ring_of,
    subflows_of,
    tools_at,
)
from perdure.flows.loading.schema import (
    BranchingKeys,
    CircularKeys,
    ControllerExecutorKeys,
    Keys,
    answer_of,
    model_of,
)
from perdure.flows.loading.validate import read_keys
from perdure.flows.loading.yaml_flow import FlowStart, YamlFlow
from perdure.flows.rings.branching_flow import BranchingFlow
from perdure.flows.rings.circular import CircularFlow
from perdure.flows.rings.controller_executor import ControllerExecutorFlow
from perdure.flows.rings.parallel_calls import fault_of_ring
from perdure.flows.rounds.flow import Flow

#: Keys whose values become class attributes of the same name.
_SETTINGS = (
    "description",
    "max_rounds",
    "interrupt_before",
    "interrupt_after",
    "lease_seconds",
    "round_timeout_seconds",
    "needs_goal",
    "runs_shell",
    "expose",
    "keep_turns",
    "keep_events",
    "record_values",
    "early_exit_key",
    "output_keys",
    "max_bad_replies",
    "max_result",
    "parallel_calls",
    "budgets",
    "approvers",
    "on_misfit",
)


def read_flow(path: Path, shipped: bool = False) -> YamlFlow:
    """Read and validate a flow in a YAML file.

    Args:
        shipped: Whether the file comes with Perdure.

    Raises:
        InvalidFlowFile: The file has faults. Each is a sentence that names file, line and key.
    """
    path = path.absolute()
    written = read_text(read_bytes(path, shown_path(path)), shown_path(path))
    faults = FileFaults(written.file, written.lines)
    keys = read_keys(written.data, faults)
    name = keys.name or path.stem
    if "name" not in written.data and not is_name(name):
        faults.add((), f"the file's name {name!r} is not a valid name of a flow; add the key name")
    made = _class(keys, faults)
    faults.check()
    with faults.at("flow"):  # contradictions between keys that are valid by themselves
        made(name=name).check_definition()
    faults.check()
    return YamlFlow(path, name, partial(made, name=name), shipped, _starts(faults))


def _starts(faults: FileFaults) -> tuple[FlowStart, ...]:
    at = [(name, faults.fault(place, "")) for place, name in faults.starts.items()]
    return tuple(FlowStart(name, where.file, where.line, where.key) for name, where in at)


def _class(keys: Keys, faults: FileFaults) -> Callable[..., Flow]:
    """Build the flow class of a YAML file. Return a callable that makes the flow.

    The settings in the file become attributes of the class. Faults are added to ``faults``: if
    there are any, the callable must not be used.
    """
    settings: dict[str, Any] = {
        key: getattr(keys, key) for key in _SETTINGS if key in keys.model_fields_set
    }
    if keys.retry is not None:
        settings["retry"] = keys.retry.made()
    for budget, limit in keys.budgets.items():
        try:
            check_budgets({budget: limit})
        except InvalidInput as error:
            faults.add(("budgets", budget), str(error))
    if keys.lifespan is not None:
        with faults.at("lifespan"):
            settings["lifespan"] = lifespan_named(keys.lifespan)
    if keys.note_store is not None:
        with faults.at("note_store"):
            settings["note_store"] = lifespan_named(keys.note_store)
    if isinstance(keys, BranchingKeys):
        commands = commands_at(("subflows_config",), keys.subflows_config, faults)
        _check_pauses(keys, ["Branch"], faults)
        return partial(
            type("Written", (BranchingFlow,), settings), commands, tell_errors=keys.tell_errors
        )
    if "inputs" in keys.model_fields_set:
        settings["Inputs"] = model_of(keys.inputs, faults)
    if keys.answer is not None:
        settings["Answer"] = answer_of(keys.answer, faults)
    if isinstance(keys, CircularKeys):
        parts = subflows_of(keys.subflows_config, faults)
        settings["topology"] = ring_of(keys.topology, parts, faults, own=False, inputs=keys.inputs)
        _check_pauses(keys, [node.name for node in settings["topology"]], faults)
        return type("Written", (CircularFlow,), settings)
    assert isinstance(keys, ControllerExecutorKeys)
    if keys.topology != "circular":
        settings["topology"] = ring_of(keys.topology, {}, faults, own=True, inputs=keys.inputs)
    fault = fault_of_ring(keys.parallel_calls, settings.get("topology", ()))
    if fault is not None and faults.nodes_are_known:
        faults.add(("parallel_calls",), fault)
    _check_pauses(
        keys,
        [*OWN, *(node.name for node in settings.get("topology", ()) if node.name not in OWN)],
        faults,
    )
    config = keys.subflows_config
    settings["controller"] = controller_named(keys.controller, config.Controller, faults)
    brought = own_commands_of(settings["controller"])
    chosen = commands_at(
        ("subflows_config", "Executor", "subflows_config"),
        config.Executor.subflows_config,
        faults,
        brought,
    )
    remote = tools_at(("mcp_servers",), keys.mcp_servers, faults)
    settings["commands"] = [*chosen, *remote]
    settings["flow_config"] = {
        "subflows_config": also_choosing(config, remote) if chosen else config
    }
    return type("Written", (ControllerExecutorFlow,), settings)


def _check_pauses(keys: Keys, nodes: list[str], faults: FileFaults) -> None:
    """Record a fault for each unknown node in ``interrupt_before`` and ``interrupt_after``.

    Nothing is checked if the nodes of the file could not be read.

    Args:
        nodes: The names of the flow's nodes.
    """
    if not faults.nodes_are_known:
        return
    for setting in ("interrupt_before", "interrupt_after"):
        for position, node in enumerate(getattr(keys, setting)):
            if node not in nodes:
                faults.add(
                    (setting, position), f"no node is named {node!r}; {suggest(node, nodes)}"
                )
