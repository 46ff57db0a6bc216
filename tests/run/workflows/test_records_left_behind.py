"""Records of steps' results and failures: large ones, and those that earlier attempts left behind."""

from __future__ import annotations

import pytest

from perdure import Client, Retry, RoundContext, RunStatus, Step, Steps, workflow
from perdure.worker.engine.journal import StoreJournal
from tests.support.round_driver import Driver
from tests.support.workflow_effects import (
    DEADLY,
    DONE,
    FAILING,
    Killed,
    effect,
    nothing_done,
    play,
)

__all__ = ["nothing_done"]

FAST = Retry(5, initial=0.0, maximum=0.0)


def large(name: str, size: int) -> str:
    return effect(name)[:1] * size


@workflow("begun_large")
def larges(steps: Steps) -> list[int]:
    works = [Step(large, "big", 17_000_000, name="big")]
    big, _ = steps.gather([*works, Step(effect, "pay", idempotent=True, retry=FAST)])
    return [len(big)]


def test_a_result_above_the_limit_of_a_record_is_made_once(client: Client, driver: Driver) -> None:
    FAILING["pay"] = 1
    done = play(driver, client.submit("begun_large"))
    assert (done.status, done.answer) == (RunStatus.COMPLETED, [17_000_000])
    assert DONE["big"] == 1


@workflow("begun_in_parts")
def in_parts(steps: Steps) -> list[int]:
    works = [Step(large, "big", 17_000_000, name="big", idempotent=True)]
    big, _ = steps.gather([*works, Step(effect, "pay", idempotent=True)])
    return [len(big)]


def test_the_parts_of_lost_attempts_leave_room_for_those_of_the_next(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = StoreJournal.record

    def record_or_die(journal: StoreJournal, name: str, text: str) -> str:
        if '"parts":' in text and DEADLY["record"]:
            DEADLY["record"] -= 1
            raise Killed
        return record(journal, name, text)

    monkeypatch.setattr(StoreJournal, "record", record_or_die)
    monkeypatch.setattr("perdure.flows.workflows.concurrent_steps.PART", 500_000)  # 35 parts
    DEADLY["record"] = 1
    done = play(driver, client.submit("begun_in_parts"))
    assert (done.status, done.answer) == (RunStatus.COMPLETED, [17_000_000]), done.error


def remembers_much(context: RoundContext) -> str:
    if FAILING["big"]:
        context.remember("much", "m" * 17_000_000)
    return effect("big")


@workflow("begun_large_failure")
def large_failure(steps: Steps) -> list[str]:
    works = [Step(remembers_much, name="big"), Step(effect, "pay", idempotent=True, retry=FAST)]
    return steps.gather(works)


def test_a_failure_above_the_limit_of_a_record_is_read_as_a_failure(
    client: Client, driver: Driver
) -> None:
    FAILING.update({"big": 1, "pay": 1})
    failed = play(driver, client.submit("begun_large_failure"))
    assert failed.status is RunStatus.ERRORED and dict(DONE) == {"big": 1, "pay": 2}
    assert "Not idempotent: big" in str(failed.error)
    client.retry(failed.id)
    assert play(driver, failed).status is RunStatus.COMPLETED
    assert dict(DONE) == {"big": 2, "pay": 2}


TWICE = {"max_attempts": 2, "initial": 0.0, "maximum": 0.0, "within": 60.0}


@workflow("begun_sixteen")
def sixteen(steps: Steps) -> int:
    works = (Step(effect, f"n{n}", name=f"n{n}", idempotent=True, retry=TWICE) for n in range(16))
    return len(steps.gather(works))


def test_failures_before_a_retry_by_a_person_leave_room_for_those_after_it(
    client: Client, driver: Driver
) -> None:
    FAILING.update({f"n{n}": 10 for n in range(16)})
    run = client.submit("begun_sixteen")
    for _ in range(5):
        assert "step n0 failed: ValueError: n0 failed" in str(play(driver, run).error)
        client.retry(run.id)
    done = play(driver, run)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, 16), done.error
    assert set(DONE.values()) == {11}
