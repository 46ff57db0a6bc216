"""Errors are for models, not for code: the results of a command's exception and of a wrong decision
if code decides.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure import Client, RemoteClient, RunStatus, VerdictCode
from perdure.worker.cli.views.described_run import described
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.round_driver import Driver
from tests.support.threaded_server import serving

ALL = list(range(10))
MODULE = "tests.support.example_flows.command_failures"


pytestmark = pytest.mark.settings(flow_modules=(MODULE,), retry_delay_seconds=0.01)


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    return tmp_path / "faults"


def submit(client: Client, faults: Path, times: int, **inputs: str) -> str:
    faults.write_text("fault\n" * times)
    return client.submit("pages", "ten", {"faults": str(faults), **inputs}).id


def test_an_exception_of_a_command_that_code_decided_is_retried_and_no_page_is_lost(
    client: Client, driver: Driver, faults: Path
) -> None:
    ended = driver.play_to_rest(submit(client, faults, 2))
    assert (ended.status, ended.answer) == (RunStatus.COMPLETED, ALL)


def test_a_command_that_code_decided_and_that_fails_for_good_ends_the_run_errored_and_retry_plays_its_step(
    client: Client, driver: Driver, faults: Path
) -> None:
    run = submit(client, faults, 3)
    errored = driver.play_to_rest(run)
    assert errored.status is RunStatus.ERRORED and "ConnectionError: page 4 is not there" in (
        errored.error or ""
    )
    step = errored.state.step
    client.retry(run)
    ended = driver.play_to_rest(run)
    assert (ended.status, ended.answer) == (RunStatus.COMPLETED, ALL)
    assert step == 2 * 4 + 1, "the Executor's round of page 4"


def test_a_command_that_must_not_happen_twice_is_not_repeated_after_its_exception_until_a_person_says_so(
    client: Client, driver: Driver, faults: Path
) -> None:
    run = submit(client, faults, 1, name="charge")
    errored = driver.play_to_rest(run)
    assert errored.status is RunStatus.ERRORED and "not idempotent" in (errored.error or "")
    assert [
        event.type for event in client.events(run, follow=False) if event.type == "failed"
    ] == []
    client.retry(run)
    assert driver.play_to_rest(run).answer == ALL


def test_a_command_whose_errors_are_observed_tells_them_to_code_too(
    client: Client, driver: Driver, faults: Path
) -> None:
    ended = driver.play_to_rest(submit(client, faults, 9, name="look"))
    assert (ended.status, ended.answer[4]) == (
        RunStatus.COMPLETED,
        {"error": "ConnectionError: page 4 is not there"},
    )


def test_a_wrong_decision_of_code_is_a_bug_and_ends_the_run_at_once(
    client: Client, driver: Driver, faults: Path
) -> None:
    errored = driver.play_to_rest(submit(client, faults, 0, name="fetsch"))
    assert (errored.status, errored.state.step) == (RunStatus.ERRORED, 0)
    assert "did you mean 'fetch'" in (errored.error or "")


def test_a_busy_provider_is_waited_for_and_no_attempt_is_counted(
    client: Client, driver: Driver
) -> None:
    run = client.submit("busy", "g", {"times": 5, "retry_after": 0})
    ended = driver.play_to_rest(run.id)
    assert (ended.status, ended.answer, ended.details["failures"]) == (RunStatus.COMPLETED, 6, 0)
    events = list(client.events(run.id, follow=False))
    waits = [event for event in events if event.type == "waits"]
    assert [event.data["waits"] for event in waits] == list("12345") and not [
        event for event in events if event.type == "failed"
    ]
    assert {event.data["since"] for event in waits} == {
        waits[0].data["since"]
    } and "answers 429" in waits[0].data["reason"]


def test_a_run_that_waits_for_its_provider_says_since_when_until_when_and_why(
    client: Client, driver: Driver
) -> None:
    run = client.submit("busy", "g", {"times": 1, "retry_after": 600})
    driver.play()
    assert client.get(run.id).details["waiting_for"] == "provider"
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.WAITING_FOR_A_PROVIDER and verdict.since is not None
    assert verdict.details["reason"].endswith("the provider answers 429")
    assert (datetime.fromisoformat(verdict.details["until"]) - verdict.since).total_seconds() == 600
    assert client.get(run.id).details["waiting_since"] == verdict.since.isoformat()
    shown = dict(described(client.get(run.id)))
    assert shown["waits"].startswith("for the provider since ") and "next try" in shown["waits"]


#: A submission's limits on attempts; without them the worker gives a round three.
TIGHT: dict[str, Any] = {"max_attempts": 2, "within": "10m"}


def by_client(settings: Settings, directory: Path, inputs: dict[str, str]) -> str:
    with closing(Client(settings=settings)) as client:
        return client.submit("pages", "ten", inputs, retry=TIGHT).id


def by_command_line(settings: Settings, directory: Path, inputs: dict[str, str]) -> str:
    given = [text for name, value in inputs.items() for text in ("--input", f"{name}={value}")]
    done = CommandLine(directory, settings, PERDURE_FLOW_MODULES=MODULE)(
        "submit", "pages", "ten", *given, "--retry", "max_attempts=2,within=10m", "--json"
    )
    assert done.code == 0, done.err
    return str(done.json["id"])


def by_http(settings: Settings, directory: Path, inputs: dict[str, str]) -> str:
    with serving(settings) as url:
        answer = httpx2.post(
            f"{url}/api/v1/runs",
            json={"flow": "pages", "goal": "ten", "inputs": inputs, "retry": TIGHT},
            timeout=30,
        )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def by_remote_client(settings: Settings, directory: Path, inputs: dict[str, str]) -> str:
    with serving(settings) as url, closing(RemoteClient(url)) as remote:
        return remote.submit("pages", "ten", inputs, retry=TIGHT).id


@pytest.mark.parametrize("submitted", [by_client, by_command_line, by_http, by_remote_client])
def test_a_submission_may_tighten_how_often_its_rounds_are_tried(
    client: Client,
    driver: Driver,
    settings: Settings,
    faults: Path,
    tmp_path: Path,
    submitted: Callable[[Settings, Path, dict[str, str]], str],
) -> None:
    faults.write_text("fault\n" * 9)
    run = submitted(settings, tmp_path, {"faults": str(faults)})
    assert driver.play_to_rest(run).status is RunStatus.ERRORED
    assert len(faults.read_text().splitlines()) == 9 - TIGHT["max_attempts"]
    tried = [
        event.attempt
        for event in client.events(run, follow=False)
        if event.type in ("failed", "errored")
    ]
    assert tried == [1, 2]
