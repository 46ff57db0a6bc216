"""The gate between two rounds: is the run's time over, were the rounds enough, does a person want to look? Pure.

The stop request is the fourth question, and it is asked where it cannot be raced: in the claim and commit scripts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from worker.execution_state import ExecutionStatus


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for a person at this boundary: in front of the next node, or behind the one that ran."""

    status: ExecutionStatus
    node: str
    reason: str


def pause_between(done: str | None, coming: str, before: Collection[str], after: Collection[str]) -> Pause | None:
    """The pause between node ``done`` (None at the start of a run) and node ``coming``, if one is wanted.

    One boundary is one pause: where both sides ask for it, it is told as the one behind ``done``. It is decided
    when a round is committed, so resuming passes it, and the next visit pauses again.
    """
    if done is not None and (behind := pause_behind(done, after)) is not None:
        return behind
    if coming in before:
        return Pause(ExecutionStatus.INTERRUPTED_BEFORE, coming, f"interrupt_before: {coming}")
    return None


def pause_behind(done: str, after: Collection[str]) -> Pause | None:
    """The pause behind node ``done``, if one is wanted; also where no node follows, before the answer of the run goes out."""
    return Pause(ExecutionStatus.INTERRUPTED_AFTER, done, f"interrupt_after: {done}") if done in after else None


def rounds_exhausted(cycles: int, max_rounds: int | None) -> bool:
    """Whether ``cycles`` completed passes are all that the run may have; None is no limit."""
    return max_rounds is not None and cycles >= max_rounds


def too_late(now: int, deadline: int | None) -> bool:
    """Whether a round that starts at ``now`` (ms) starts after the run's deadline (ms)."""
    return deadline is not None and now >= deadline
