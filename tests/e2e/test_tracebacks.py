"""The traceback of a failed round: kept with the run, told wherever the run is shown, and without secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Client, Run, RunStatus
from perdure.worker.settings import Settings
from tests.support.page_visitor import Visitor
from tests.support.redis_servers import CrashableServer
from tests.support.threaded_server import serving
from tests.support.workers import workers

SECRET = "sk-very-secret-0042"


@pytest.fixture
def settings(server: CrashableServer, prefix: str) -> Settings:
    return Settings(
        redis_url=server.url,
        prefix=prefix,
        flow_modules=("tests.support.example_flows.user_code_errors",),
    )


@pytest.fixture
def worker(settings: Settings) -> Iterator[None]:
    with workers(
        1,
        settings,
        "--concurrency",
        "2",
        PERDURE_FLOW_MODULES="tests.support.example_flows.user_code_errors",
        PERDURE_RETRY_DELAY_SECONDS="0.01",
        TEST_API_KEY=SECRET,
    ):
        yield


def ended(client: Client, goal: str) -> Run:
    return client.wait(client.submit("divides", goal).id, 30)


@pytest.mark.usefixtures("worker")
def test_an_errored_run_shows_the_flows_own_frames_first_and_folds_all_others(
    client: Client, settings: Settings
) -> None:
    run = ended(client, "x")
    told = str(run.details["traceback"]).splitlines()
    assert run.status is RunStatus.ERRORED and told[0] == "ZeroDivisionError: division by zero"
    assert (
        'File "tests/support/example_flows/user_code_errors.py"' in told[1]
        and "in decide" in told[1]
        and told[4].strip() == "return left / right"
    )
    assert len(told) == 5, "not a frame of the engine's"
    folded = str(ended(client, "library").details["traceback"]).splitlines()
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


@pytest.mark.usefixtures("worker")
def test_a_traceback_goes_with_the_next_success(client: Client) -> None:
    run = ended(client, "once")
    assert run.status is RunStatus.COMPLETED and "traceback" not in run.details
    assert [
        event.type for event in client.events(run.id, follow=False) if "traceback" in event.data
    ] == ["failed"]


@pytest.mark.usefixtures("worker")
def test_no_secret_of_the_environment_and_no_password_of_a_url_is_in_an_event(
    client: Client,
) -> None:
    run = ended(client, "secret")
    told = str([event.to_dict() for event in client.events(run.id, follow=False)]) + str(
        run.to_dict()
    )
    assert SECRET not in told and "hunter22" not in told and "[secret]" in told
