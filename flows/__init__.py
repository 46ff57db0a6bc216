"""Flows, the definitions of what a run does in its rounds.

This package knows nothing of servers, queues and workers.
"""

from __future__ import annotations

from perdure.flows.cancellation import Signals
from perdure.flows.children import Child, ChildFailed, Ended, Group, InvalidChild, WaitOver
from perdure.flows.commands.approval import Approval
from perdure.flows.commands.command import CommandSpec, command
from perdure.flows.commands.flow_command import flow_command
from perdure.flows.commands.in_doubt import NOT_DONE
from perdure.flows.context import RoundContext
from perdure.flows.controllers import Controller, controller
from perdure.flows.controllers.scripted import ScriptedController
from perdure.flows.errors import (
    BadReply,
    FatalError,
    Forgotten,
    InvalidFlow,
    InvalidInput,
    OutcomeUnknown,
    PerdureError,
    RetryableError,
    RoundStopped,
    TopicTaken,
    UnstorableValue,
)
from perdure.flows.flow import Flow, Role
from perdure.flows.history import History
from perdure.flows.human import human_feedback
from perdure.flows.memory import memory_read, memory_write
from perdure.flows.names import node
from perdure.flows.outcomes import Advance, Command, End, Finish, Interrupt, Outcome, Renew, Turn
from perdure.flows.registry import (
    FlowNotFound,
    add_directory,
    load_failures,
    load_modules,
    make,
    register,
    registered,
)
from perdure.flows.retry import Retry
from perdure.flows.shapes.branching_flow import BranchingFlow
from perdure.flows.shapes.circular import CircularFlow, Node, interface
from perdure.flows.shapes.controller_executor import ControllerExecutorFlow
from perdure.flows.waits import Mailbox, Parked, ReceivedSignal

__all__ = [
    "NOT_DONE",
    "Advance",
    "Approval",
    "BadReply",
    "BranchingFlow",
    "Child",
    "ChildFailed",
    "CircularFlow",
    "Command",
    "CommandSpec",
    "Controller",
    "ControllerExecutorFlow",
    "End",
    "Ended",
    "FatalError",
    "Finish",
    "Flow",
    "FlowNotFound",
    "Forgotten",
    "Group",
    "History",
    "Interrupt",
    "InvalidChild",
    "InvalidFlow",
    "InvalidInput",
    "Mailbox",
    "Node",
    "Outcome",
    "OutcomeUnknown",
    "Parked",
    "PerdureError",
    "ReceivedSignal",
    "Renew",
    "Retry",
    "RetryableError",
    "Role",
    "RoundContext",
    "RoundStopped",
    "ScriptedController",
    "Signals",
    "TopicTaken",
    "Turn",
    "UnstorableValue",
    "WaitOver",
    "add_directory",
    "command",
    "controller",
    "flow_command",
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
