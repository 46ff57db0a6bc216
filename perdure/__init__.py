"""Perdure: durable, long-running goals as jobs on Celery and Redis.

This is the public face. Everything here is stable and documented in ``docs/reference``.
``perdure.testing`` is the crash lab and ``perdure.app`` the Celery app that runs rounds.
Names are imported when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.flows.commands.approval import Approval
    from perdure.flows.commands.command import CommandSpec, command
    from perdure.flows.commands.controller import Controller, controller
    from perdure.flows.commands.flow_command import flow_command
    from perdure.flows.commands.in_doubt import NOT_DONE
    from perdure.flows.commands.scripted import ScriptedController
    from perdure.flows.core.cancellation import Signals
    from perdure.flows.core.errors import (
        BadReply,
        CodeDoesNotFit,
        FatalError,
        Forgotten,
        InvalidAnswer,
        InvalidFlow,
        InvalidInput,
        OutcomeUnknown,
        PerdureError,
        RetryableError,
        RoundStopped,
        TopicTaken,
        UnstorableValue,
    )
    from perdure.flows.core.files import File, FileReference
    from perdure.flows.core.history import History
    from perdure.flows.core.names import Role, node
    from perdure.flows.core.outcomes import (
        Advance,
        Command,
        End,
        Finish,
        Interrupt,
        Outcome,
        Renew,
        Turn,
    )
    from perdure.flows.core.retry import Retry
    from perdure.flows.core.thread_messages import ThreadMessage
    from perdure.flows.executors.container import Container, ContainerFailed
    from perdure.flows.executors.sandbox import Sandbox, SandboxCommand, ThisMachine
    from perdure.flows.executors.shell import shell_command
    from perdure.flows.executors.subprocesses import ProcessEnding
    from perdure.flows.loading.sources import add_directory
    from perdure.flows.rings.branching_flow import BranchingFlow
    from perdure.flows.rings.circular import CircularFlow, Node, interface
    from perdure.flows.rings.controller_executor import ControllerExecutorFlow
    from perdure.flows.rings.human import human_feedback
    from perdure.flows.rings.memory import memory_read, memory_write
    from perdure.flows.rounds.children import (
        Child,
        ChildFailed,
        Ended,
        Group,
        InvalidChild,
        WaitOver,
    )
    from perdure.flows.rounds.context import RoundContext
    from perdure.flows.rounds.flow import Flow
    from perdure.flows.rounds.lifespans import Lifespan, LifespanFailed, lifespan
    from perdure.flows.rounds.notes import Note, Notes, NoteStore
    from perdure.flows.rounds.registry import (
        FlowNotFound,
        load_failures,
        load_modules,
        make,
        register,
        registered,
    )
    from perdure.flows.rounds.waits import Mailbox, Parked, ReceivedSignal
    from perdure.flows.workflows import (
        Ask,
        AsyncSteps,
        Diverged,
        Step,
        StepFailed,
        Steps,
        workflow,
    )
    from perdure.worker.app import install
    from perdure.worker.client import Client, Inbox, Page
    from perdure.worker.client.async_client import AsyncClient
    from perdure.worker.client.remote import RemoteClient
    from perdure.worker.doctor import Finding
    from perdure.worker.domain.error_groups import ErrorGroup, ErrorGroups
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.execution_state import (
        END,
        START,
        ExecutionState,
        ExecutionStatus,
        StopRequestStatus,
    )
    from perdure.worker.domain.interrupt import PendingInterrupt, Waiting
    from perdure.worker.domain.note_namespace import NoteNamespace
    from perdure.worker.domain.run import Run, RunStatus
    from perdure.worker.domain.run_tree import AlikeRuns, RunTree
    from perdure.worker.domain.sent_message import SentMessage
    from perdure.worker.domain.signal import SignalReceipt, SignalReply
    from perdure.worker.domain.stop import StopReceipt
    from perdure.worker.domain.stream import StreamItem
    from perdure.worker.domain.verdict import Verdict, VerdictCode
    from perdure.worker.errors import (
        AccessDenied,
        ArtifactNotFound,
        Conflict,
        DamagedNote,
        DamagedRun,
        Forbidden,
        InvalidSettings,
        InvalidTransition,
        MailboxFull,
        NotForkable,
        NotReplicated,
        RunExists,
        RunFailed,
        RunNotFound,
        Stale,
        StoreUnavailable,
        Taken,
        UnknownCaller,
        UnknownFlow,
        ValueNotFound,
    )
    from perdure.worker.settings import Settings

_HOMES = {
    "ProcessEnding": "perdure.flows.executors.subprocesses",
    "shell_command": "perdure.flows.executors.shell",
    "ThisMachine": "perdure.flows.executors.sandbox",
    "SandboxCommand": "perdure.flows.executors.sandbox",
    "Sandbox": "perdure.flows.executors.sandbox",
    "ContainerFailed": "perdure.flows.executors.container",
    "Container": "perdure.flows.executors.container",
    "AccessDenied": "perdure.worker.errors",
    "Advance": "perdure.flows.core.outcomes",
    "Approval": "perdure.flows.commands.approval",
    "ArtifactNotFound": "perdure.worker.errors",
    "AlikeRuns": "perdure.worker.domain.run_tree",
    "Ask": "perdure.flows.workflows",
    "AsyncClient": "perdure.worker.client.async_client",
    "AsyncSteps": "perdure.flows.workflows",
    "BadReply": "perdure.flows.core.errors",
    "BranchingFlow": "perdure.flows.rings.branching_flow",
    "Child": "perdure.flows.rounds.children",
    "ChildFailed": "perdure.flows.rounds.children",
    "CircularFlow": "perdure.flows.rings.circular",
    "Client": "perdure.worker.client.client",
    "CodeDoesNotFit": "perdure.flows.core.errors",
    "Command": "perdure.flows.core.outcomes",
    "CommandSpec": "perdure.flows.commands.command",
    "Conflict": "perdure.worker.errors",
    "Controller": "perdure.flows.commands.controller",
    "ControllerExecutorFlow": "perdure.flows.rings.controller_executor",
    "DamagedNote": "perdure.worker.errors",
    "DamagedRun": "perdure.worker.errors",
    "Diverged": "perdure.flows.workflows",
    "END": "perdure.worker.domain.execution_state",
    "End": "perdure.flows.core.outcomes",
    "Ended": "perdure.flows.rounds.children",
    "ErrorGroup": "perdure.worker.domain.error_groups",
    "ErrorGroups": "perdure.worker.domain.error_groups",
    "Event": "perdure.worker.domain.event",
    "ExecutionState": "perdure.worker.domain.execution_state",
    "ExecutionStatus": "perdure.worker.domain.execution_state",
    "FatalError": "perdure.flows.core.errors",
    "File": "perdure.flows.core.files",
    "FileReference": "perdure.flows.core.files",
    "Finding": "perdure.worker.doctor",
    "Finish": "perdure.flows.core.outcomes",
    "Flow": "perdure.flows.rounds.flow",
    "FlowNotFound": "perdure.flows.rounds.registry",
    "Forbidden": "perdure.worker.errors",
    "Forgotten": "perdure.flows.core.errors",
    "Group": "perdure.flows.rounds.children",
    "History": "perdure.flows.core.history",
    "Inbox": "perdure.worker.domain.interrupt",
    "Interrupt": "perdure.flows.core.outcomes",
    "InvalidAnswer": "perdure.flows.core.errors",
    "InvalidChild": "perdure.flows.rounds.children",
    "InvalidFlow": "perdure.flows.core.errors",
    "InvalidInput": "perdure.flows.core.errors",
    "InvalidSettings": "perdure.worker.errors",
    "InvalidTransition": "perdure.worker.errors",
    "Mailbox": "perdure.flows.rounds.waits",
    "Lifespan": "perdure.flows.rounds.lifespans",
    "LifespanFailed": "perdure.flows.rounds.lifespans",
    "MailboxFull": "perdure.worker.errors",
    "NOT_DONE": "perdure.flows.commands.in_doubt",
    "Node": "perdure.flows.rings.circular",
    "Note": "perdure.flows.rounds.notes",
    "NoteNamespace": "perdure.worker.domain.note_namespace",
    "NoteStore": "perdure.flows.rounds.notes",
    "Notes": "perdure.flows.rounds.notes",
    "NotForkable": "perdure.worker.errors",
    "NotReplicated": "perdure.worker.errors",
    "Outcome": "perdure.flows.core.outcomes",
    "OutcomeUnknown": "perdure.flows.core.errors",
    "Page": "perdure.worker.domain.run",
    "Parked": "perdure.flows.rounds.waits",
    "PendingInterrupt": "perdure.worker.domain.interrupt",
    "PerdureError": "perdure.flows.core.errors",
    "ReceivedSignal": "perdure.flows.rounds.waits",
    "RemoteClient": "perdure.worker.client.remote",
    "Renew": "perdure.flows.core.outcomes",
    "Retry": "perdure.flows.core.retry",
    "RetryableError": "perdure.flows.core.errors",
    "Role": "perdure.flows.core.names",
    "RoundContext": "perdure.flows.rounds.context",
    "RoundStopped": "perdure.flows.core.errors",
    "Run": "perdure.worker.domain.run",
    "RunExists": "perdure.worker.errors",
    "RunFailed": "perdure.worker.errors",
    "RunNotFound": "perdure.worker.errors",
    "RunStatus": "perdure.worker.domain.run",
    "RunTree": "perdure.worker.domain.run_tree",
    "START": "perdure.worker.domain.execution_state",
    "ScriptedController": "perdure.flows.commands.scripted",
    "Settings": "perdure.worker.settings",
    "SignalReceipt": "perdure.worker.domain.signal",
    "SentMessage": "perdure.worker.domain.sent_message",
    "SignalReply": "perdure.worker.domain.signal",
    "ThreadMessage": "perdure.flows.core.thread_messages",
    "Signals": "perdure.flows.core.cancellation",
    "Stale": "perdure.worker.errors",
    "Step": "perdure.flows.workflows",
    "StepFailed": "perdure.flows.workflows",
    "Steps": "perdure.flows.workflows",
    "StopReceipt": "perdure.worker.domain.stop",
    "StopRequestStatus": "perdure.worker.domain.execution_state",
    "StoreUnavailable": "perdure.worker.errors",
    "StreamItem": "perdure.worker.domain.stream",
    "Taken": "perdure.worker.errors",
    "TopicTaken": "perdure.flows.core.errors",
    "Turn": "perdure.flows.core.outcomes",
    "UnknownCaller": "perdure.worker.errors",
    "UnknownFlow": "perdure.worker.errors",
    "UnstorableValue": "perdure.flows.core.errors",
    "ValueNotFound": "perdure.worker.errors",
    "Verdict": "perdure.worker.domain.verdict",
    "VerdictCode": "perdure.worker.domain.verdict",
    "WaitOver": "perdure.flows.rounds.children",
    "Waiting": "perdure.worker.domain.interrupt",
    "add_directory": "perdure.flows.loading.sources",
    "command": "perdure.flows.commands.command",
    "controller": "perdure.flows.commands.controller",
    "flow_command": "perdure.flows.commands.flow_command",
    "human_feedback": "perdure.flows.rings.human",
    "install": "perdure.worker.app",
    "interface": "perdure.flows.rings.circular",
    "lifespan": "perdure.flows.rounds.lifespans",
    "load_failures": "perdure.flows.rounds.registry",
    "load_modules": "perdure.flows.rounds.registry",
    "make": "perdure.flows.rounds.registry",
    "memory_read": "perdure.flows.rings.memory",
    "memory_write": "perdure.flows.rings.memory",
    "node": "perdure.flows.core.names",
    "register": "perdure.flows.rounds.registry",
    "registered": "perdure.flows.rounds.registry",
    "workflow": "perdure.flows.workflows",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names of ``perdure``.

    So completion finds the names that are not imported yet.
    """
    return sorted(__all__)


__all__ = [
    "END",
    "NOT_DONE",
    "START",
    "AccessDenied",
    "Advance",
    "AlikeRuns",
    "Approval",
    "ArtifactNotFound",
    "Ask",
    "AsyncClient",
    "AsyncSteps",
    "BadReply",
    "BranchingFlow",
    "Child",
    "ChildFailed",
    "CircularFlow",
    "Client",
    "CodeDoesNotFit",
    "Command",
    "CommandSpec",
    "Conflict",
    "Container",
    "ContainerFailed",
    "Controller",
    "ControllerExecutorFlow",
    "DamagedNote",
    "DamagedRun",
    "Diverged",
    "End",
    "Ended",
    "ErrorGroup",
    "ErrorGroups",
    "Event",
    "ExecutionState",
    "ExecutionStatus",
    "FatalError",
    "File",
    "FileReference",
    "Finding",
    "Finish",
    "Flow",
    "FlowNotFound",
    "Forbidden",
    "Forgotten",
    "Group",
    "History",
    "Inbox",
    "Interrupt",
    "InvalidAnswer",
    "InvalidChild",
    "InvalidFlow",
    "InvalidInput",
    "InvalidSettings",
    "InvalidTransition",
    "Lifespan",
    "LifespanFailed",
    "Mailbox",
    "MailboxFull",
    "Node",
    "NotForkable",
    "NotReplicated",
    "Note",
    "NoteNamespace",
    "NoteStore",
    "Notes",
    "Outcome",
    "OutcomeUnknown",
    "Page",
    "Parked",
    "PendingInterrupt",
    "PerdureError",
    "ProcessEnding",
    "ReceivedSignal",
    "RemoteClient",
    "Renew",
    "Retry",
    "RetryableError",
    "Role",
    "RoundContext",
    "RoundStopped",
    "Run",
    "RunExists",
    "RunFailed",
    "RunNotFound",
    "RunStatus",
    "RunTree",
    "Sandbox",
    "SandboxCommand",
    "ScriptedController",
    "SentMessage",
    "Settings",
    "SignalReceipt",
    "SignalReply",
    "Signals",
    "Stale",
    "Step",
    "StepFailed",
    "Steps",
    "StopReceipt",
    "StopRequestStatus",
    "StoreUnavailable",
    "StreamItem",
    "Taken",
    "ThisMachine",
    "ThreadMessage",
    "TopicTaken",
    "Turn",
    "UnknownCaller",
    "UnknownFlow",
    "UnstorableValue",
    "ValueNotFound",
    "Verdict",
    "VerdictCode",
    "WaitOver",
    "Waiting",
    "add_directory",
    "command",
    "controller",
    "flow_command",
    "human_feedback",
    "install",
    "interface",
    "lifespan",
    "load_failures",
    "load_modules",
    "make",
    "memory_read",
    "memory_write",
    "node",
    "register",
    "registered",
    "shell_command",
    "workflow",
]
