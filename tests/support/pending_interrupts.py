"""Runs that wait for a person, as they are read: one of each kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.worker.domain.execution_state import ExecutionState, ExecutionStatus
from perdure.worker.domain.run import Run, RunStatus

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
REMOVE: dict[str, Any] = {"path": "build/  old\u202e", "recursive": True}
#: The stored fields of its interrupt, by kind.
ASKED: dict[str, dict[str, Any]] = {
    "approval": {
        "kind": "node",
        "reason": "approve the command remove?",
        "data": {"approval": {"command": "remove", "args": REMOVE, "digest": "5f693c47"}},
        "deadline": (NOW + timedelta(minutes=55)).isoformat(),
        "default": "refuse",
    },
    "in_doubt": {
        "kind": "node",
        "reason": "pay was begun, and its round was cut off (a lost worker, its time limit, or a stop): has it happened?",
        "data": {"in_doubt": {"command": "pay", "args": {"to": "ann"}, "key": "r:1:x"}},
    },
    "budget": {
        "kind": "budget",
        "reason": "budget_exhausted",
        "data": {"budget": "tokens", "limit": 2_000, "spent": 2_100},
    },
    "question": {
        "kind": "node",
        "reason": "which of the two?",
        "data": {"observation": "two\nof them"},
    },
    "pause": {"kind": "before", "reason": "interrupt_before: Executor", "data": None},
}


def a_run(
    kind: str | None,
    status: RunStatus = RunStatus.INTERRUPTED,
    answered: bool = False,
    **details: Any,
) -> Run:
    """Make a run that asks something of this kind; None: nothing."""
    asked = (
        {}
        if kind is None
        else {
            "interrupt": {
                "id": "2:7",
                "deadline": None,
                "default": None,
                "answered": answered,
                **ASKED[kind],
            }
        }
    )
    state = ExecutionState(
        current_node="Executor",
        step=7,
        status=ExecutionStatus.INTERRUPTED_BEFORE,
        interrupted_node="Executor",
    )
    since = NOW - timedelta(minutes=3)
    goal = "tidy up\nthe whole of this rather old repository, and do not forget the corners"
    return Run(
        "0331a86cada74a1e", "careful", goal, {}, status, state, None, {}, None, since, since, {}, status.value, {**asked, **details}
    )  # fmt: skip
