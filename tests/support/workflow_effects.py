"""Effects of steps, how often each happened, and the rounds of workers that die of it."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import AsyncSteps, Client, Run, RunStatus, Settings, Steps, VerdictCode, workflow
from perdure.flows.core.errors import ProcessEnd
from perdure.worker.ids import process_name
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.waits import WORK

#: Names of journal entries that `steps.now()` makes.
IS_TIME = re.compile(r"now(\.\d+)?$")
#: The effects of steps, and how often their functions were begun.
DONE: Counter[str] = Counter()
BEGUN: Counter[str] = Counter()
#: Names of the steps in which the process dies, with how often.
DEADLY: Counter[str] = Counter()
FAILING: Counter[str] = Counter()


class Killed(ProcessEnd):
    """The process dies."""

    count = 0

    def __init__(self) -> None:
        super().__init__("killed")
        Killed.count += 1


def effect(name: str) -> str:
    """Cause an effect; die behind it on the test's order."""
    DONE[name] += 1
    if DEADLY[name]:
        DEADLY[name] -= 1
        raise Killed
    if FAILING[name]:
        FAILING[name] -= 1
        raise ValueError(f"{name} failed")
    return f"{name} is done"


async def aeffect(name: str) -> str:
    await asyncio.sleep(0)
    return effect(name)


@workflow("workflow_order")
def order(steps: Steps, item: str, idempotent: bool = True) -> list[str]:
    """Charge, ship, mail."""
    BEGUN["order"] += 1
    return [
        steps.step(effect, f"{what} {item}", name=what, idempotent=idempotent)
        for what in ("charge", "ship", "mail")
    ]


@workflow("workflow_live_order")
async def live_order(steps: AsyncSteps, item: str) -> list[str]:
    """Charge, ship, mail."""
    BEGUN["live"] += 1
    return [
        await steps.step(aeffect, f"{what} {item}", name=what, idempotent=True)
        for what in ("charge", "ship", "mail")
    ]


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    """Forget the effects of earlier tests."""
    for each in (DONE, BEGUN, DEADLY, FAILING):
        each.clear()


@pytest.fixture
def other(settings: Settings) -> Iterator[Driver]:
    """A driver like another worker process."""
    with driving(settings) as made:
        yield made


def play_one(driver: Driver, before_its_commit: bool = False) -> bool:
    """Play a round, or begin it in a process that dies in it; whether there was one."""
    message = driver.take()
    if message is None:
        return False
    run_id, epoch, step = message
    try:
        if before_its_commit:
            driver.dies_before_its_commit(*message)
            raise Killed
        driver.engine.rounds.run(*message)
    except Killed:
        driver.engine.store.rounds.release_dead_lease(
            run_id, epoch=epoch, step=step, process=process_name()
        )
        driver.sweeper.sweep()
    return True


def let_time_pass(driver: Driver) -> None:
    """End the waits of rounds whose worker was lost, which take a second and more, and sweep."""
    store = driver.engine.store
    for run_id in store.redis.zrange(store.keys.due, 0, -1):
        if store.redis.hget(store.keys.run(run_id), "waiting_for") in ("loss", "retry", "code"):
            store.redis.hset(store.keys.run(run_id), "waiting_until", 1)
            store.redis.zadd(store.keys.due, {run_id: 1})
    driver.sweeper.sweep()


def let_deadline_pass(client: Client, run_id: str) -> None:
    """Make the deadline of a run's open question due. The next sweep gives the default answer."""
    store = client._store
    store.redis.hset(store.keys.run(run_id), "i_until", 1)
    store.redis.zadd(store.keys.due, {run_id: 1})


def play(driver: Driver, run: Run) -> Run:
    """Play until the run ends, or waits for a person."""

    def rests() -> bool:
        while play_one(driver):
            pass
        let_time_pass(driver)
        found = driver.client.get(run.id)
        return found.status.ended or found.status is RunStatus.INTERRUPTED

    until(rests, "the end of the run", WORK)
    return driver.client.get(run.id)


def play_anywhere(settings: Settings, run: Run) -> Run:
    """Play each round in another process, until the run has ended, or waits for a person."""

    def rests() -> bool:
        with driving(settings) as another:
            play_one(another)
            let_time_pass(another)
            found = another.client.get(run.id)
            return found.status.ended or found.status is RunStatus.INTERRUPTED

    until(rests, "the end of the run", WORK)
    with driving(settings) as another:
        return another.client.get(run.id)


def play_until_it_waits_for_code(client: Client, settings: Settings, run: Run) -> str:
    """Play until the run waits for code that fits; the error of the attempt."""

    def waits() -> bool:
        with driving(settings) as worker:
            play_one(worker)
        return client.why(run.id).code is VerdictCode.CODE_DOES_NOT_FIT

    until(waits, "the run to wait for code", 10)
    return str(client.why(run.id))


def journal(client: Client, run: Run) -> list[tuple[str, Any]]:
    """Return names and results of the run's steps. Times, which differ between runs, are left out."""
    entries = [
        (turn["command"]["name"], turn["observation"])
        for turn in client.transcript(run.id)["history"]
    ]
    return [(name, None if IS_TIME.match(name) else result) for name, result in entries]
