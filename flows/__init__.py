"""Flows: what a run does in its rounds. They know nothing of servers, queues and workers."""

from __future__ import annotations

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
from flows.retries import Retry

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
    "Retry",
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
