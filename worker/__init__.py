"""Holdfast: durable, long-running goals as jobs, on Celery and Redis. This is the public surface."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.async_client import AsyncClient
    from worker.client import Client, Inbox, Page
    from worker.doctor import Finding
    from worker.errors import (
        ArtifactNotFound,
        Conflict,
        DamagedRun,
        Forbidden,
        HoldfastError,
        InvalidInput,
        InvalidSettings,
        InvalidTransition,
        RunExists,
        RunNotFound,
        Stale,
        UnknownCaller,
        UnknownFlow,
    )
    from worker.event import Event
    from worker.execution_state import END, START, ExecutionState, ExecutionStatus, StopRequestStatus
    from worker.installing import install
    from worker.receipt import StopReceipt
    from worker.remote import RemoteClient
    from worker.run import Run, RunStatus
    from worker.settings import Settings
    from worker.store import AccessDenied, NotReplicated, StoreUnavailable
    from worker.verdict import Verdict, VerdictCode
    from worker.waiting import Waiting

#: Where each public name lives; imported when first used, so that the command line starts fast.
_HOMES = {
    "install": "worker.installing",
    "AsyncClient": "worker.async_client",
    "Client": "worker.client",
    "Inbox": "worker.client",
    "Page": "worker.client",
    "Finding": "worker.doctor",
    "ArtifactNotFound": "worker.errors",
    "Conflict": "worker.errors",
    "DamagedRun": "worker.errors",
    "Forbidden": "worker.errors",
    "HoldfastError": "worker.errors",
    "InvalidInput": "worker.errors",
    "InvalidSettings": "worker.errors",
    "InvalidTransition": "worker.errors",
    "RunExists": "worker.errors",
    "RunNotFound": "worker.errors",
    "Stale": "worker.errors",
    "UnknownCaller": "worker.errors",
    "UnknownFlow": "worker.errors",
    "NotReplicated": "worker.store",
    "Event": "worker.event",
    "END": "worker.execution_state",
    "START": "worker.execution_state",
    "ExecutionState": "worker.execution_state",
    "ExecutionStatus": "worker.execution_state",
    "StopRequestStatus": "worker.execution_state",
    "StopReceipt": "worker.receipt",
    "RemoteClient": "worker.remote",
    "Run": "worker.run",
    "RunStatus": "worker.run",
    "Settings": "worker.settings",
    "AccessDenied": "worker.store",
    "StoreUnavailable": "worker.store",
    "Verdict": "worker.verdict",
    "VerdictCode": "worker.verdict",
    "Waiting": "worker.waiting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'worker' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "END",
    "START",
    "AccessDenied",
    "ArtifactNotFound",
    "AsyncClient",
    "Client",
    "Conflict",
    "DamagedRun",
    "Event",
    "ExecutionState",
    "ExecutionStatus",
    "Finding",
    "Forbidden",
    "HoldfastError",
    "Inbox",
    "InvalidInput",
    "InvalidSettings",
    "InvalidTransition",
    "NotReplicated",
    "Page",
    "RemoteClient",
    "Run",
    "RunExists",
    "RunNotFound",
    "RunStatus",
    "Settings",
    "Stale",
    "StopReceipt",
    "StopRequestStatus",
    "StoreUnavailable",
    "UnknownCaller",
    "UnknownFlow",
    "Verdict",
    "VerdictCode",
    "Waiting",
    "install",
]
