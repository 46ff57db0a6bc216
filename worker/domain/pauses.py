"""Pauses for a person between two nodes.

Also the limits that end a run there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.worker.domain.execution_state import ExecutionStatus

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause for a person before or after a node."""

    status: ExecutionStatus
    node: str
    reason: str


def pause_between(
    done: str | None, coming: str, before: Collection[str], after: Collection[str]
) -> Pause | None:
    """Return the pause between two nodes, or None.

    One boundary is one pause: if both sides ask for it, it counts as the pause after ``done``. The
    commit of a round decides on the pause. So resuming passes it, and the next visit pauses again.

    Args:
        done: The node that ran, or None at the start of a run.
        coming: The node that runs next.
        before, after: Nodes to pause before, and nodes to pause after.
    """
    if done is not None and (behind := pause_behind(done, after)) is not None:
        return behind
    if coming in before:
        return Pause(ExecutionStatus.INTERRUPTED_BEFORE, coming, f"interrupt_before: {coming}")
    return None


def pause_behind(done: str, after: Collection[str]) -> Pause | None:
    """Return the pause after a finished node, or None.

    If no node follows, the pause comes before the run's answer is published.
    """
    return (
        Pause(ExecutionStatus.INTERRUPTED_AFTER, done, f"interrupt_after: {done}")
        if done in after
        else None
    )


def rounds_exhausted(cycles: int, max_rounds: int | None) -> bool:
    """Return whether a run has used up its cycles.

    If ``max_rounds`` is None, there is no limit.
    """
    return max_rounds is not None and cycles >= max_rounds


def too_late(now: int, deadline: int | None) -> bool:
    """Return whether ``now`` misses the deadline (both in ms)."""
    return deadline is not None and now >= deadline


def pause_fields(pause: Pause) -> dict[str, str]:
    """Return the hash fields that describe a pause."""
    kind = "before" if pause.status is ExecutionStatus.INTERRUPTED_BEFORE else "after"
    return {
        "i_kind": kind,
        "i_status": pause.status.value,
        "i_node": pause.node,
        "i_reason": pause.reason,
    }
