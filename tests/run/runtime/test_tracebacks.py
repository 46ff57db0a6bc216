"""The traceback of a failed round: kept with the run, shown everywhere with the run, and without
secrets.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Client, Run, RunStatus
from perdure.worker.settings import Settings
from tests.support.command_line import ROOT
from tests.support.page_visitor import Visitor
from tests.support.round_driver import Driver, driving
from tests.support.threaded_server import serving

SECRET = "sk-very-secret-0042"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    modules = ("tests.support.example_flows.user_code_errors",)
    return settings.model_copy(update={"flow_modules": modules, "retry_delay_seconds": 0.01})


@pytest.fixture
def driver(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setenv("TEST_API_KEY", SECRET)
    monkeypatch.chdir(ROOT)  # paths of a traceback begin there
    with driving(settings) as made:
        yield made


def ended(driver: Driver, goal: str) -> Run:
    return driver.play_to_rest(driver.client.submit("divides", goal).id)


def test_an_errored_run_shows_the_flows_own_frames_first_and_folds_all_others(
    client: Client, settings: Settings, driver: Driver
) -> None:
    run = ended(driver, "x")
    told = str(run.details["traceback"]).splitlines()
    assert run.status is RunStatus.ERRORED and told[0] == "ZeroDivisionError: division by zero"
    assert (
        'File "tests/support/example_flows/user_code_errors.py"' in told[1]
        and "in decide" in told[1]
        and told[4].strip() == "return left / right"
    )
    assert len(told) == 5, "not a frame of the engine's"
    folded = str(ended(driver, "library").details["traceback"]).splitlines()
    assert (
        'tests/support/example_flows/user_code_errors.py"' in folded[1]
        and folded[-1].lstrip().startswith("(")
        and "json/decoder.py" in folded[-1]
    )

    events = list(client.events(run.id, follow=False))
    kept = [
        event.type for event in events if event.data.get("traceback") == run.details["traceback"]
    ]
    assert kept == ["failed", "errored"], "once for all attempts that failed alike, and at the end"
    assert "traceback" not in client.runs("errored").runs[0].details, "a list stays short"
    with serving(settings) as url, Visitor(url) as somebody:
        assert "return left / right" in somebody.see(f"/runs/{run.id}").text


def test_a_traceback_goes_with_the_next_success(client: Client, driver: Driver) -> None:
    run = ended(driver, "once")
    assert run.status is RunStatus.COMPLETED and "traceback" not in run.details
    assert [
        event.type for event in client.events(run.id, follow=False) if "traceback" in event.data
    ] == ["failed"]


def test_no_secret_of_the_environment_and_no_password_of_a_url_is_in_an_event(
    client: Client, driver: Driver
) -> None:
    run = ended(driver, "secret")
    told = str([event.to_dict() for event in client.events(run.id, follow=False)]) + str(
        run.to_dict()
    )
    assert SECRET not in told and "hunter22" not in told and "[secret]" in told
