"""``deps`` of the rounds of a process: made once, shared, and no run is lost if that fails."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    RunStatus,
    Settings,
    Steps,
    command,
    lifespan,
    register,
    workflow,
)
from perdure.testing import Lab
from tests.support.flow_registry import own_registry
from tests.support.redis_servers import CrashableServer
from tests.support.round_driver import Driver, driving


class Bank:
    """Something that is expensive to open."""

    opened = 0

    def __init__(self) -> None:
        self.is_open = True
        Bank.opened += 1

    def balance(self) -> int:
        assert self.is_open
        return 12


#: Errors with which the next openings fail.
FAULTS: list[Exception] = []


@lifespan(name="a_bank")
def a_bank() -> Iterator[Bank]:
    if FAULTS:
        raise FAULTS.pop()
    bank = Bank()
    yield bank
    bank.is_open = False


class Asking(ControllerExecutorFlow):
    """Asks for the balance."""

    lifespan = a_bank

    def decide(self, context: RoundContext[Bank]) -> Command | Finish:
        assert context.deps.is_open
        if len(context.history) == 0:
            return Command("balance")
        return Finish(context.observation)

    @command(idempotent=True)
    async def balance(self, context: RoundContext[Bank]) -> int:
        """Return the balance."""
        return context.deps.balance()


@pytest.fixture
def driver(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    own_registry(monkeypatch)
    register("asking")(Asking)

    @workflow("asking_in_steps", lifespan=a_bank)
    def asking_in_steps(steps: Steps) -> int:
        return int(steps.step(steps.deps.balance))

    monkeypatch.setattr(Bank, "opened", 0)
    FAULTS.clear()
    with driving(settings) as made:
        yield made
    a_bank.close()


@pytest.mark.parametrize("flow", ["asking", "asking_in_steps"])
def test_all_rounds_of_a_process_share_what_the_first_has_opened(
    client: Client, driver: Driver, flow: str
) -> None:
    runs = [client.submit(flow, "x") for _ in range(3)]
    driver.play()
    assert [client.result(run, 1) for run in runs] == [12, 12, 12]
    assert Bank.opened == 1


def test_a_round_whose_lifespan_cannot_be_opened_is_tried_again_and_nothing_is_lost(
    client: Client, driver: Driver
) -> None:
    FAULTS.append(ConnectionError("no bank at port 1"))
    run = client.submit("asking", "x")
    driver.play()
    waiting = client.get(run.id)
    assert waiting.phase == "waiting" and waiting.details["failures"] == 1
    assert "the lifespan 'a_bank' could not be opened" in waiting.details["last_error"]
    assert "no bank at port 1" in waiting.details["last_error"]
    for _ in range(100):
        if client.get(run.id).status.ended:
            break
        driver.sweep_and_play()
        time.sleep(0.05)
    assert client.result(run, 1) == 12


def test_after_its_last_attempt_the_run_is_errored_and_can_be_retried(
    client: Client, driver: Driver
) -> None:
    FAULTS.append(ConnectionError("no bank at port 1"))
    run = client.submit("asking", "x", retry={"max_attempts": 1})
    driver.play()
    assert client.get(run.id).status is RunStatus.ERRORED
    client.retry(run.id)
    driver.play()
    assert client.result(run, 1) == 12


@pytest.mark.slow
def test_each_story_of_the_crash_lab_opens_its_own(server: CrashableServer, driver: Driver) -> None:
    with Lab(server.url) as lab:
        report = lab(Asking, limit=10)
    assert report.undisturbed.answer == 12
    assert Bank.opened == 2 + 10
