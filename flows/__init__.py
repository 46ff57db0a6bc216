"""Flows: what a run does in its rounds. They know nothing of servers, queues and workers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows.approvals import Approval
    from flows.base import Flow, Role
    from flows.branching import BranchingFlow
    from flows.circular import CircularFlow, Node
    from flows.commands import CommandSpec, command
    from flows.context import History, RoundContext, Signals
    from flows.controller_executor import ControllerExecutorFlow
    from flows.controllers import Controller, controller
    from flows.controllers.scripted import ScriptedController
    from flows.doubts import NOT_DONE
    from flows.errors import (
        BadReply,
        FatalError,
        HoldfastError,
        InvalidFlow,
        InvalidInput,
        OutcomeUnknown,
        RetryableError,
        RoundStopped,
        UnstorableValue,
    )
    from flows.human import human_feedback
    from flows.interfaces import interface
    from flows.memory import memory_read, memory_write
    from flows.nodes import node
    from flows.outcomes import Advance, Command, End, Finish, Interrupt, Outcome, Turn
    from flows.registry import FlowNotFound, add_directory, load_failures, load_modules, make, register, registered

#: Where each public name lives; imported when first used, so that commands which need no flow start fast.
_HOMES = {
    "Approval": "flows.approvals",
    "Flow": "flows.base",
    "Role": "flows.base",
    "BranchingFlow": "flows.branching",
    "CircularFlow": "flows.circular",
    "Node": "flows.circular",
    "CommandSpec": "flows.commands",
    "command": "flows.commands",
    "History": "flows.context",
    "RoundContext": "flows.context",
    "Signals": "flows.context",
    "ControllerExecutorFlow": "flows.controller_executor",
    "Controller": "flows.controllers",
    "controller": "flows.controllers",
    "ScriptedController": "flows.controllers.scripted",
    "NOT_DONE": "flows.doubts",
    "BadReply": "flows.errors",
    "FatalError": "flows.errors",
    "HoldfastError": "flows.errors",
    "InvalidFlow": "flows.errors",
    "InvalidInput": "flows.errors",
    "OutcomeUnknown": "flows.errors",
    "RetryableError": "flows.errors",
    "RoundStopped": "flows.errors",
    "UnstorableValue": "flows.errors",
    "human_feedback": "flows.human",
    "interface": "flows.interfaces",
    "memory_read": "flows.memory",
    "memory_write": "flows.memory",
    "node": "flows.nodes",
    "Advance": "flows.outcomes",
    "Command": "flows.outcomes",
    "End": "flows.outcomes",
    "Finish": "flows.outcomes",
    "Interrupt": "flows.outcomes",
    "Outcome": "flows.outcomes",
    "Turn": "flows.outcomes",
    "FlowNotFound": "flows.registry",
    "add_directory": "flows.registry",
    "load_failures": "flows.registry",
    "load_modules": "flows.registry",
    "make": "flows.registry",
    "register": "flows.registry",
    "registered": "flows.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'flows' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "NOT_DONE",
    "Advance",
    "Approval",
    "BadReply",
    "BranchingFlow",
    "CircularFlow",
    "Command",
    "CommandSpec",
    "Controller",
    "ControllerExecutorFlow",
    "End",
    "FatalError",
    "Finish",
    "Flow",
    "FlowNotFound",
    "History",
    "HoldfastError",
    "Interrupt",
    "InvalidFlow",
    "InvalidInput",
    "Node",
    "Outcome",
    "OutcomeUnknown",
    "RetryableError",
    "Role",
    "RoundContext",
    "RoundStopped",
    "ScriptedController",
    "Signals",
    "Turn",
    "UnstorableValue",
    "add_directory",
    "command",
    "controller",
    "human_feedback",
    "interface",
    "load_failures",
    "load_modules",
    "make",
    "memory_read",
    "memory_write",
    "node",
    "register",
    "registered",
]
