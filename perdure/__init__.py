"""Perdure: durable, long-running goals as jobs on Celery and Redis.

This is the public face. Everything here is stable and documented in ``docs/reference``.
``perdure.testing`` is the crash lab and ``perdure.app`` the Celery app that runs rounds.
Names are imported when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: The public names by the module that defines them. Type checkers read ``__init__.pyi``, which
#: ``make reference`` writes from this table.
_NAMES = {
    "perdure.flows.commands.approval": ("Approval",),
    "perdure.flows.commands.command": ("CommandSpec", "command"),
    "perdure.flows.commands.controller": ("Controller", "controller"),
    "perdure.flows.commands.flow_command": ("flow_command",),
    "perdure.flows.commands.in_doubt": ("NOT_DONE",),
    "perdure.flows.commands.scripted": ("ScriptedController",),
    "perdure.flows.core.cancellation": ("Signals",),
    "perdure.flows.core.errors": (
        "BadReply", "CodeDoesNotFit", "FatalError", "Forgotten", "InvalidAnswer",
        "InvalidFlow", "InvalidInput", "OutcomeUnknown", "PerdureError", "RetryableError",
        "RoundStopped", "TopicTaken", "UnstorableValue",
    ),
    "perdure.flows.core.files": ("File", "FileReference"),
    "perdure.flows.core.history": ("History",),
    "perdure.flows.core.names": ("Role", "node"),
    "perdure.flows.core.outcomes": (
        "Advance", "Command", "End", "Finish", "Interrupt", "Outcome", "Renew", "Turn",
    ),
    "perdure.flows.core.retry": ("Retry",),
    "perdure.flows.core.thread_messages": ("ThreadMessage",),
    "perdure.flows.executors.container": ("Container", "ContainerFailed"),
    "perdure.flows.executors.sandbox": ("Sandbox", "SandboxCommand", "ThisMachine"),
    "perdure.flows.executors.shell": ("shell_command",),
    "perdure.flows.executors.subprocesses": ("ProcessEnding",),
    "perdure.flows.loading.sources": ("add_directory",),
    "perdure.flows.rings.branching_flow": ("BranchingFlow",),
    "perdure.flows.rings.circular": ("CircularFlow", "Node", "interface"),
    "perdure.flows.rings.controller_executor": ("ControllerExecutorFlow",),
    "perdure.flows.rings.human": ("human_feedback",),
    "perdure.flows.rings.memory": ("memory_read", "memory_write"),
    "perdure.flows.rounds.children": (
        "Child", "ChildFailed", "Ended", "Group", "InvalidChild", "WaitOver",
    ),
    "perdure.flows.rounds.context": ("RoundContext",),
    "perdure.flows.rounds.flow": ("Flow",),
    "perdure.flows.rounds.lifespans": ("Lifespan", "LifespanFailed", "lifespan"),
    "perdure.flows.rounds.notes": ("Note", "NoteStore", "Notes"),
    "perdure.flows.rounds.registry": (
        "FlowNotFound", "load_failures", "load_modules", "make", "register", "registered",
    ),
    "perdure.flows.rounds.waits": ("Mailbox", "Parked", "ReceivedSignal"),
    "perdure.flows.workflows": (
        "Ask", "AsyncSteps", "Diverged", "Step", "StepFailed", "Steps", "workflow",
    ),
    "perdure.worker.app": ("install",),
    "perdure.worker.client.async_client": ("AsyncClient",),
    "perdure.worker.client.client": ("Client",),
    "perdure.worker.client.remote": ("RemoteClient",),
    "perdure.worker.doctor": ("Finding",),
    "perdure.worker.domain.error_groups": ("ErrorGroup", "ErrorGroups"),
    "perdure.worker.domain.event": ("Event",),
    "perdure.worker.domain.execution_state": (
        "END", "ExecutionState", "ExecutionStatus", "START", "StopRequestStatus",
    ),
    "perdure.worker.domain.interrupt": ("Inbox", "PendingInterrupt", "Waiting"),
    "perdure.worker.features.notes.namespace": ("NoteNamespace",),
    "perdure.worker.domain.run": ("Page", "Run", "RunStatus"),
    "perdure.worker.domain.run_tree": ("AlikeRuns", "RunTree"),
    "perdure.worker.domain.sent_message": ("SentMessage",),
    "perdure.worker.domain.signal": ("SignalReceipt", "SignalReply"),
    "perdure.worker.domain.stop": ("StopReceipt",),
    "perdure.worker.domain.stream": ("StreamItem",),
    "perdure.worker.domain.verdict": ("Verdict", "VerdictCode"),
    "perdure.worker.errors": (
        "AccessDenied", "ArtifactNotFound", "Conflict", "DamagedNote", "DamagedRun",
        "Forbidden", "InvalidSettings", "InvalidTransition", "MailboxFull", "NotForkable",
        "NotReplicated", "RunExists", "RunFailed", "RunNotFound", "Stale",
        "StoreUnavailable", "Taken", "UnknownCaller", "UnknownFlow", "ValueNotFound",
    ),
    "perdure.worker.settings": ("Settings",),
}  # fmt: skip
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)  # noqa: PLE0605  no literal: the table has the names


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
    return __all__
