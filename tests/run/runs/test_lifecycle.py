"""Stops, interrupts, retries and limits of runs."""

from __future__ import annotations

import pytest

from perdure import (
    Client,
    ExecutionStatus,
    InvalidTransition,
    RunStatus,
    Settings,
    StopRequestStatus,
)
from tests.support.commit_log import commits, exact
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving, playing


@pytest.fixture
def settings(settings: Settings) -> Settings:
    modules = ("tests.support.example_flows.rings",)
    return settings.model_copy(update={"flow_modules": modules, "retry_delay_seconds": 0.1})


def leased(client: Client, run_id: str) -> bool:
    return client.get(run_id).phase == "leased"


def test_stop_now_stops_a_sleeping_round_frees_its_thread_and_refuses_its_late_commit(
    client: Client, settings: Settings
) -> None:
    with playing(settings):
        run = client.submit("ledger", "sleep", {"rounds": 2, "seconds": 60})
        until(lambda: leased(client, run.id), "the round in flight")
        receipt = client.request_stop(run.id, mode="now", reason="enough", requested_by="ada")
        assert receipt.stopped and receipt.in_doubt == "0/Controller/1"
        stopped = client.get(run.id)
        assert stopped.status is RunStatus.STOPPED
        assert stopped.state.stop_current_execution is StopRequestStatus.STOPPED
        assert (stopped.state.status, stopped.state.interrupt_reason) == (
            ExecutionStatus.INTERRUPTED_AFTER,
            "stop_requested",
        )
        # The only thread is free again when the round has looked at its token.
        other = client.submit("ledger", "quick", {"rounds": 1})
        assert client.wait(other.id, 10).status is RunStatus.COMPLETED
    assert commits(client, run.id) == []


def test_the_late_commit_of_a_round_that_cannot_be_hurried_is_refused(
    client: Client, settings: Settings
) -> None:
    with playing(settings):
        run = client.submit("deaf", "sleep", {"seconds": 2.5})
        until(lambda: leased(client, run.id), "the round in flight")
        assert client.request_stop(run.id, mode="now").stopped
        other = client.submit("ledger", "behind it", {"rounds": 1})
        client.wait(other.id, 20)  # so the deaf round has ended, and has offered its result
    assert client.get(run.id).status is RunStatus.STOPPED
    assert commits(client, run.id) == []


def test_a_graceful_stop_keeps_the_round_in_flight_and_starts_no_other(
    client: Client, settings: Settings
) -> None:
    with playing(settings):
        run = client.submit("ledger", "g", {"rounds": 2, "seconds": 1.5})
        until(lambda: leased(client, run.id), "the round in flight")
        receipt = client.request_stop(run.id)
        assert receipt.running and not receipt.stopped
        stopped = client.wait(run.id, 20)
        assert stopped.status is RunStatus.STOPPED
        step = stopped.state.step
        assert commits(client, run.id) == list(range(step))
        client.resume(run.id)
        assert client.wait(run.id, 20).answer == [0, 1]
        assert client.get(run.id).state.stop_current_execution is StopRequestStatus.NONE


def test_a_stop_before_the_first_round_lets_no_round_run(client: Client, driver: Driver) -> None:
    run = client.submit("ledger", "g", {"rounds": 2})
    assert client.request_stop(run.id).stopped
    driver.play()
    assert client.get(run.id).status is RunStatus.STOPPED
    assert commits(client, run.id) == []


def test_a_stopped_run_that_waited_for_an_answer_waits_again_after_resume(
    client: Client, driver: Driver
) -> None:
    run = client.submit("asker", "g")
    assert driver.play_to_rest(run.id).status is RunStatus.INTERRUPTED
    assert client.request_stop(run.id).stopped
    assert client.resume(run.id).status is RunStatus.INTERRUPTED
    asked = client.get(run.id)
    assert (
        asked.state.interrupt_reason == "may I?"
        and asked.state.status is ExecutionStatus.INTERRUPTED_BEFORE
    )
    client.resume(run.id, answer={"yes": True})
    ended = driver.play_to_rest(run.id)
    assert ended.answer["said"] == {"yes": True}


def test_an_answer_goes_to_the_node_that_asked_under_the_same_key(
    client: Client, driver: Driver
) -> None:
    run = client.submit("asker", "g")
    asked = driver.play_to_rest(run.id)
    key = (asked.state.interrupt_data or {})["key"]
    assert asked.state.step == 0
    client.resume(run.id, answer="yes")
    assert driver.play_to_rest(run.id).answer == {"said": "yes", "key": key}


def test_an_interrupt_with_a_deadline_is_answered_by_its_default(
    client: Client, settings: Settings
) -> None:
    with playing(settings):
        run = client.submit("asker", "g", {"deadline": 0.5, "default": "nobody came"})
        until(lambda: client.get(run.id).status is RunStatus.COMPLETED, "the default answer")
    assert client.get(run.id).answer["said"] == "nobody came"


def test_a_loop_pauses_at_every_visit_of_a_node_in_interrupt_before_and_resume_keeps_the_step(
    client: Client, driver: Driver
) -> None:
    run = client.submit("ledger", "g", {"rounds": 4}, interrupt_before=["Executor"])
    visits = []
    while (paused := driver.play_to_rest(run.id)).status is RunStatus.INTERRUPTED:
        assert paused.state.interrupt_reason == "interrupt_before: Executor"
        assert paused.state.current_node == "Executor"
        visits.append(paused.state.step)
        client.resume(run.id)
    assert visits == [1, 3]
    assert [event.step for event in client.events(run.id) if event.type == "resumed"] == visits, (
        "resume keeps the step"
    )
    assert exact(client, run.id, 4)


def test_interrupt_after_pauses_behind_the_node_and_never_runs_it_twice(
    client: Client, driver: Driver
) -> None:
    run = client.submit("ledger", "g", {"rounds": 3}, interrupt_after=["Controller"])
    paused = driver.play_to_rest(run.id)
    assert (paused.state.interrupt_reason, paused.state.interrupted_node) == (
        "interrupt_after: Controller",
        "Controller",
    )
    assert paused.state.status is ExecutionStatus.INTERRUPTED_AFTER
    client.resume(run.id)
    last = driver.play_to_rest(run.id)
    assert (last.state.interrupt_reason, last.state.step, last.answer) == (
        "interrupt_after: Controller",
        3,
        None,
    ), "before the answer goes out"
    client.resume(run.id)
    assert driver.play_to_rest(run.id).answer == [0, 1, 2]


def test_an_interrupt_before_the_first_node_pauses_before_any_round(
    client: Client, driver: Driver
) -> None:
    run = client.submit("ledger", "g", {"rounds": 1}, interrupt_before=["Controller"])
    assert run.status is RunStatus.INTERRUPTED and run.state.step == 0
    client.resume(run.id)
    assert driver.play_to_rest(run.id).answer == [0]


def test_a_retryable_error_is_tried_again_by_the_due_set_until_it_works(
    client: Client, driver: Driver
) -> None:
    run = client.submit("trouble", "g", {"kind": "retryable", "times": 2, "retry_after": 0.1})
    assert driver.play_to_rest(run.id).answer == 3
    assert [event.type for event in client.events(run.id, follow=False)].count("failed") == 2


@pytest.mark.parametrize(
    ("kind", "text"),
    [("fatal", "this can never work"), ("plain", "ValueError: an ordinary exception")],
)
def test_an_error_ends_the_run_errored_with_its_words(
    client: Client, driver: Driver, kind: str, text: str
) -> None:
    run = client.submit("trouble", "g", {"kind": kind})
    ended = driver.play_to_rest(run.id)
    assert ended.status is RunStatus.ERRORED
    assert ended.error is not None and ended.error.endswith(text) and run.id in ended.error
    assert (
        ended.state.status is ExecutionStatus.ERROR
        and ended.state.internal_data["error"] == ended.error
    )
    tries = len(
        [
            event
            for event in client.events(run.id, follow=False)
            if event.type in ("failed", "errored")
        ]
    )
    assert tries == (1 if kind == "fatal" else 3)


def test_a_retried_run_is_running_can_be_stopped_and_keeps_the_error_in_its_history(
    client: Client, driver: Driver
) -> None:
    run = client.submit("trouble", "g", {"kind": "fatal", "times": 1})
    assert driver.play_to_rest(run.id).status is RunStatus.ERRORED
    with pytest.raises(InvalidTransition, match="errored"):
        client.resume(run.id)
    again = client.retry(run.id)
    assert again.state.status is ExecutionStatus.RUNNING and again.error is None
    assert client.request_stop(run.id).stopped
    client.resume(run.id)
    ended = driver.play_to_rest(run.id)
    assert (ended.status, ended.answer) == (RunStatus.COMPLETED, 2)
    assert "error" not in ended.state.internal_data
    retried = [event for event in client.events(run.id, follow=False) if event.type == "retried"]
    assert "this can never work" in retried[0].data["error"]


def test_a_round_over_its_time_limit_is_cancelled_and_tried_again(settings: Settings) -> None:
    limited = settings.model_copy(update={"round_timeout_seconds": 0.3, "max_attempts": 2})
    with driving(limited) as driver:
        run = driver.client.submit("ledger", "g", {"rounds": 1, "seconds": 30})
        ended = driver.play_to_rest(run.id)
    assert (
        ended.status is RunStatus.ERRORED
        and ended.error is not None
        and "longer than its limit (0.3 s)" in ended.error
    )


def test_a_run_over_its_deadline_ends_errored(client: Client, driver: Driver) -> None:
    run = client.submit("ledger", "g", {"rounds": 1, "seconds": 30}, deadline=1.0)
    ended = driver.play_to_rest(run.id)
    assert (
        ended.status is RunStatus.ERRORED and ended.error is not None and "deadline" in ended.error
    )


def test_a_run_does_not_start_before_its_time(client: Client, driver: Driver) -> None:
    run = client.submit("ledger", "g", {"rounds": 1}, not_before=1.0)
    assert (run.status, run.phase) == (RunStatus.QUEUED, "waiting")
    driver.play_to_rest(run.id)
    claimed = next(
        event.at for event in client.events(run.id, follow=False) if event.type == "committed"
    )
    assert (claimed - run.created_at).total_seconds() >= 1.0


def test_a_run_has_its_step(client: Client) -> None:
    run = client.submit("countdown", "x", {"rounds": 1})
    assert run.step == run.state.step == 0 and "step" not in run.to_dict()
