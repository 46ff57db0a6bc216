"""Reading a flow from a file: its keys are checked, what it names is found, and all that is wrong is told at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flows.base import Flow
from flows.branching import BranchingFlow
from flows.budgets import check_budgets
from flows.circular import CircularFlow
from flows.controller_executor import ControllerExecutorFlow
from flows.definition import is_name, known
from flows.errors import InvalidInput
from flows.written.checking import read_keys
from flows.written.faults import Faults, shown_path
from flows.written.flow import WrittenFlow
from flows.written.inputs import model_of
from flows.written.keys import BranchingKeys, CircularKeys, ControllerExecutorKeys, Keys
from flows.written.parts import OWN, also_choosing, commands_at, controller_named, ring_of, subflows_of, tools_at
from flows.written.text import read_bytes, read_text

#: Keys whose value the flow has as it stands, under the same name.
_SETTINGS = (
    "description", "max_rounds", "interrupt_before", "interrupt_after", "lease_seconds", "round_timeout_seconds", "runs_shell",
    "early_exit_key", "output_keys", "max_bad_replies", "max_result", "budgets", "approvers",
)  # fmt: skip


def read_flow(path: Path, shipped: bool = False) -> WrittenFlow:
    """Read a flow from a file.

    Raises:
        InvalidFlowFile: with a sentence for everything that is wrong, each naming file, line and key.
    """
    path = path.absolute()
    written = read_text(read_bytes(path, shown_path(path)), shown_path(path))
    faults = Faults(written.file, written.lines)
    keys = read_keys(written.data, faults)
    name = keys.name or path.stem
    if "name" not in written.data and not is_name(name):
        faults.add((), f"the file's name cannot name a flow: {name!r}; give it a key name")
    made = _class(keys, faults)
    faults.check()
    with faults.at("flow"):  # what contradicts itself in a way that no key above has been blamed for
        made(name=name).check_definition()
    faults.check()
    return WrittenFlow(path, name, partial(made, name=name), shipped)


def _class(keys: Keys, faults: Faults) -> Callable[..., Flow]:
    """What makes the flow: a class of its own with the file's settings as class attributes."""
    settings: dict[str, Any] = {key: getattr(keys, key) for key in _SETTINGS if key in keys.model_fields_set}
    if keys.retry is not None:
        settings["retry"] = keys.retry.made()
    for budget, limit in keys.budgets.items():
        try:
            check_budgets({budget: limit})
        except InvalidInput as error:
            faults.add(("budgets", budget), str(error))
    if isinstance(keys, BranchingKeys):
        commands = commands_at(("subflows_config",), keys.subflows_config, faults)
        _check_pauses(keys, ["Branch"], faults)
        return partial(type("Written", (BranchingFlow,), settings), commands, tell_errors=keys.tell_errors)
    if "inputs" in keys.model_fields_set:
        settings["Inputs"] = model_of(keys.inputs, faults)
    if isinstance(keys, CircularKeys):
        settings["topology"] = ring_of(keys.topology, subflows_of(keys.subflows_config, faults), faults, own=False)
        _check_pauses(keys, [node.name for node in settings["topology"]], faults)
        return type("Written", (CircularFlow,), settings)
    assert isinstance(keys, ControllerExecutorKeys)
    if keys.topology != "circular":
        settings["topology"] = ring_of(keys.topology, {}, faults, own=True)
    _check_pauses(keys, [*OWN, *(node.name for node in settings.get("topology", ()) if node.name not in OWN)], faults)
    config = keys.subflows_config
    settings["controller"] = controller_named(keys.controller, config.Controller, faults)
    chosen = commands_at(("subflows_config", "Executor", "subflows_config"), config.Executor.subflows_config, faults)
    remote = tools_at(("mcp_servers",), keys.mcp_servers, faults)
    settings["commands"] = [*chosen, *remote]
    settings["flow_config"] = {"subflows_config": also_choosing(config, remote) if chosen else config}
    return type("Written", (ControllerExecutorFlow,), settings)


def _check_pauses(keys: Keys, nodes: list[str], faults: Faults) -> None:
    if not faults.nodes_are_known:
        return
    for setting in ("interrupt_before", "interrupt_after"):
        for position, node in enumerate(getattr(keys, setting)):
            if node not in nodes:
                faults.add((setting, position), f"no node is named {node!r}; {known(node, nodes)}")
