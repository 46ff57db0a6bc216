"""gate: where a person wants to look, when the rounds were enough, when it is too late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.worker.domain.execution_state import ExecutionStatus
from perdure.worker.domain.pauses import Pause, pause_between, rounds_exhausted, too_late

NODES = st.sampled_from(["Controller", "Executor", "Human"])


def test_no_wish_no_pause() -> None:
    assert pause_between("Controller", "Executor", [], []) is None
    assert pause_between("Controller", "Executor", ["Controller"], ["Executor"]) is None


def test_before_names_the_node_that_comes_with_its_reason() -> None:
    assert pause_between("Controller", "Executor", ["Executor"], []) == Pause(
        ExecutionStatus.INTERRUPTED_BEFORE, "Executor", "interrupt_before: Executor"
    )


def test_after_names_the_node_that_ran_with_its_reason() -> None:
    assert pause_between("Controller", "Executor", [], ["Controller"]) == Pause(
        ExecutionStatus.INTERRUPTED_AFTER, "Controller", "interrupt_after: Controller"
    )


def test_one_boundary_is_one_pause_told_as_the_one_behind() -> None:
    pause = pause_between("Controller", "Executor", ["Executor"], ["Controller"])
    assert pause is not None and pause.status is ExecutionStatus.INTERRUPTED_AFTER


def test_a_run_can_pause_before_its_first_node_and_not_after_nothing() -> None:
    assert pause_between(None, "Controller", ["Controller"], []) is not None
    assert pause_between(None, "Controller", [], ["Controller"]) is None


@given(done=NODES, coming=NODES, before=st.sets(NODES), after=st.sets(NODES))
def test_a_loop_pauses_at_every_visit(
    done: str, coming: str, before: set[str], after: set[str]
) -> None:
    wanted = done in after or coming in before
    for _ in range(3):
        assert (pause_between(done, coming, before, after) is not None) == wanted


@pytest.mark.parametrize(
    ("cycles", "limit", "over"),
    [
        (0, 1, False),
        (1, 1, True),
        (2, 1, True),
        (29, 30, False),
        (30, 30, True),
        (10**9, None, False),
    ],
)
def test_max_rounds_counts_completed_cycles(cycles: int, limit: int | None, over: bool) -> None:
    assert rounds_exhausted(cycles, limit) is over


@pytest.mark.parametrize(
    ("now", "deadline", "late"),
    [(9, 10, False), (10, 10, True), (11, 10, True), (10**15, None, False)],
)
def test_a_round_that_starts_at_the_deadline_is_too_late(
    now: int, deadline: int | None, late: bool
) -> None:
    assert too_late(now, deadline) is late
