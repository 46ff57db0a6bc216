"""Behaviour of the system that ExecutionState grew from, and the behaviour here: the part that only
the whole engine can show.
"""

from __future__ import annotations

import pytest

from perdure import Client, ExecutionStatus, RunStatus, StopRequestStatus, StoreUnavailable
from tests.conftest import StartsWorkers


def test_the_receipt_of_a_stop_carries_the_three_facts_known_running_and_why_not(
    client: Client,
) -> None:
    unknown = client.request_stop("nobody")
    assert (unknown.known, unknown.running, unknown.why_not) == (False, False, "no-state")
    run = client.submit("countdown", "g", {"rounds": 1})
    live = client.request_stop(run.id, reason="enough", requested_by="ada")
    assert (live.known, live.running, live.why_not) == (True, True, None)
    assert (live.stopped, live.mode, live.reason, live.requested_by, live.step) == (
        True,
        "graceful",
        "enough",
        "ada",
        0,
    )
    assert live.asked_at is not None and live.stopped_at is not None
    again = client.request_stop(run.id)
    assert (again.known, again.running, again.why_not) == (True, False, "not-running")


def test_stopped_is_really_reached_and_resume_takes_the_flag_down(client: Client) -> None:
    run = client.submit("countdown", "g", {"rounds": 1})
    client.request_stop(run.id)
    state = client.get(run.id).state
    assert state.stop_current_execution is StopRequestStatus.STOPPED
    assert (state.status, state.interrupt_reason) == (
        ExecutionStatus.INTERRUPTED_AFTER,
        "stop_requested",
    )
    state = client.resume(run.id).state
    assert state.stop_current_execution is StopRequestStatus.NONE
    assert (state.status, state.interrupt_reason, state.interrupted_node) == (
        ExecutionStatus.RUNNING,
        None,
        None,
    )


def test_a_run_at_its_limit_ends_with_its_last_round_and_is_never_marked_completed_without_running(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process()
    # Two cycles are a limit that the countdown from two meets exactly: it ends by `finish` in the
    # third decision only if three are allowed, and unfinished, with all of two cycles committed, if
    # two are.
    exact = client.wait(client.submit("countdown", "g", {"rounds": 2}, max_rounds=3).id, 30)
    short = client.wait(client.submit("countdown", "g", {"rounds": 2}, max_rounds=2).id, 30)
    assert (exact.output["status"], exact.state.step) == ("finished", 5)
    assert (short.status, short.output["status"], short.state.step) == (
        RunStatus.COMPLETED,
        "unfinished",
        4,
    )


def test_a_failed_write_is_an_error_and_not_a_log_line(client: Client) -> None:
    client._store.redis.connection_pool.disconnect()
    elsewhere = Client("unix:///nowhere/at/all.sock")
    with pytest.raises(StoreUnavailable, match="no answer from the state server"):
        elsewhere.submit("countdown", "g", {"rounds": 1})
    elsewhere.close()
