"""The command that is advised for an errored run follows from what is stored with its error."""

from __future__ import annotations

import pytest

from perdure import Client, Settings, StepFailed, Steps, workflow
from perdure.worker.cli.main import run as perdure
from tests.support.round_driver import Driver
from tests.support.workflow_effects import FAILING, effect, nothing_done, play

__all__ = ["nothing_done"]


@workflow("remedy_retry")
def fails(steps: Steps) -> None:
    steps.step(effect, "pay", name="pay")


@workflow("remedy_fork")
def fails_and_goes_on(steps: Steps) -> None:
    try:
        steps.step(effect, "pay", name="pay")
    except StepFailed:
        steps.step(effect, "release", idempotent=True)
        raise


@workflow("remedy_slow")
def slow(steps: Steps) -> None:
    steps.wait_for("go")


@workflow("remedy_again")
def waits_too_long(steps: Steps) -> None:
    steps.child("remedy_slow", timeout=0.01)


@workflow("remedy_gone")
def waits_for_a_child(steps: Steps) -> None:
    steps.child("remedy_slow")


@pytest.mark.parametrize(
    ("remedy", "command"),
    [
        ("retry", "perdure retry {}"),
        ("fork", "perdure fork {} STEP"),
        ("again", "perdure again {}"),
    ],
)
def test_an_errored_run_is_continued_by_the_command_that_helps(
    client: Client,
    driver: Driver,
    settings: Settings,
    remedy: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    FAILING["pay"] = 1
    run = play(driver, client.submit(f"remedy_{remedy}"))
    why = client.why(run.id)
    assert (why.details["status"], why.details["remedy"]) == ("errored", remedy)
    assert f"{command.format(run.id)}" in why.sentence
    assert run.details.get("remedy", "retry") == remedy
    assert [group.remedy for group in client.error_groups().groups] == [remedy]
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    monkeypatch.setenv("PERDURE_REDIS_URL", settings.redis_url or "")
    perdure(["show", run.id])
    assert command.format(run.id) in capsys.readouterr().out


def test_a_deleted_child_is_no_reason_to_retry_its_parent(client: Client, driver: Driver) -> None:
    run = client.submit("remedy_gone")
    driver.play()
    [child] = client.children(run.id)
    client.request_stop(run.id)
    client.delete(child.id)
    client.resume(run.id)
    assert play(driver, run).details["remedy"] == "again"


def test_a_remedy_of_an_earlier_end_is_ignored(client: Client, driver: Driver) -> None:
    FAILING["pay"] = 2
    run = play(driver, client.submit("remedy_retry"))
    store = client._store
    store.redis.hset(store.keys.run(run.id), "remedy", f"{run.details['epoch']} fork")
    assert client.why(run.id).details["remedy"] == "fork"
    client.retry(run.id)
    play(driver, run)
    assert client.why(run.id).details["remedy"] == "retry"
