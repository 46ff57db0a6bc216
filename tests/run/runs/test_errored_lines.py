"""The line of the log that a run leaves when it ends errored: error trackers see it, with the
exception.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving


@pytest.fixture
def settings(settings: Settings) -> Settings:
    modules = ("tests.support.example_flows.user_code_errors",)
    return settings.model_copy(update={"flow_modules": modules, "retry_delay_seconds": 0.01})


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    with driving(settings) as made:
        yield made


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_run_that_ends_errored_logs_one_error_with_the_exception(
    client: Client, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    run = driver.play_to_rest(client.submit("divides", "x").id)
    assert run.status is RunStatus.ERRORED and run.error is not None
    [line] = errors(caplog)
    assert line.getMessage() == f"run {run.id} of flow divides ended errored: {run.error}"
    assert line.exc_info is not None and isinstance(line.exc_info[1], ZeroDivisionError)
    assert line.exc_info[2] is not None, "error trackers group by the frames"
    facts = {name: vars(line)[name] for name in ("run_id", "flow", "step", "node")}
    assert facts == {"run_id": run.id, "flow": "divides", "step": 0, "node": "Controller"}


def test_an_attempt_that_is_tried_again_is_no_error(
    client: Client, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    client.submit("divides", "x")
    driver.play()
    assert "the round failed" in caplog.text and errors(caplog) == []


def test_a_damaged_run_that_ends_errored_logs_the_damage(
    client: Client, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    run = client.submit("divides", "x")
    client._store.redis.hset(client._store.keys.run(run.id), "goal", "another")
    assert driver.play_to_rest(run.id).status is RunStatus.ERRORED
    [line] = [each for each in errors(caplog) if "ended errored" in each.getMessage()]
    assert line.exc_info is not None and type(line.exc_info[1]).__name__ == "DamagedRun"


def test_a_run_that_a_sweep_ends_errored_logs_why(
    client: Client, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    run = client.submit("divides", "x", deadline=0.05)

    def has_ended() -> bool:
        driver.sweeper._work(True, 0.0)
        return client.get(run.id).status.ended

    until(has_ended, "the sweep that ends the run")
    [line] = errors(caplog)
    error = client.get(run.id).error
    assert error and line.getMessage() == f"run {run.id} of flow divides ended errored: {error}"
