"""Pauses for a person between two nodes, and limits that end a run there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.worker.domain.execution_state import ExecutionStatus

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause for a person before or after a node.

    Attributes:
        status: Whether the run pauses before or after the node.
        node: The name of the node.
        reason: The reason as people read it.
    """

    status: ExecutionStatus
    node: str
    reason: str


def pause_between(
    done: str | None, coming: str, before: Collection[str], after: Collection[str]
) -> Pause | None:
    """Return the pause between two nodes. None if the run does not pause there.

    There is at most one pause between two nodes: if both ask for one, it is the pause after
    ``done``. The commit of a round decides on the pause. So a resumed run goes on to ``coming``,
    and pauses again when it is at the same place again.

    Args:
        done: The node that ran, or None at the start of a run.
        coming: The node that runs next.
        before: The nodes to pause before.
        after: The nodes to pause after.
    """
    if done is not None and (behind := pause_behind(done, after)) is not None:
        return behind
    if coming in before:
        return Pause(ExecutionStatus.INTERRUPTED_BEFORE, coming, f"interrupt_before: {coming}")
    return None


def pause_behind(done: str, after: Collection[str]) -> Pause | None:
    """Return the pause after the node ``done``. None if ``after`` does not name it.

    If the run ends with this node, it pauses before clients see its answer.
    """
    return (
        Pause(ExecutionStatus.INTERRUPTED_AFTER, done, f"interrupt_after: {done}")
        if done in after
        else None
    )


def rounds_exhausted(cycles: int, max_rounds: int | None) -> bool:
    """Return whether a run has used up its cycles. False if ``max_rounds`` is None: no limit."""
    return max_rounds is not None and cycles >= max_rounds


def too_late(now: int, deadline: int | None) -> bool:
    """Return whether a deadline has passed at ``now`` (both in ms). False without a deadline."""
    return deadline is not None and now >= deadline


def pause_fields(pause: Pause) -> dict[str, str]:
    """Return the fields of the run's hash that describe a pause."""
    kind = "before" if pause.status is ExecutionStatus.INTERRUPTED_BEFORE else "after"
    return {
        "i_kind": kind,
        "i_status": pause.status.value,
        "i_node": pause.node,
        "i_reason": pause.reason,
    }
