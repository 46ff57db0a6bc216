"""Random workflows, played with deaths by chance and without."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from perdure import AsyncSteps, Client, Run, RunStatus, Step, StepFailed, Steps, workflow
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.workflow_effects import BEGUN, Killed, journal, let_time_pass, play_one

Op = tuple[Any, ...]


def program(random: Random, depth: int = 2) -> list[Op]:
    kinds = ["step", "once", "fail", "gather", "sleep", "ask", "chance", "child"]
    kinds += ["loop"] * (depth > 0)
    made: list[Op] = []
    for _ in range(random.randint(1, 4)):
        kind = random.choice(kinds)
        if kind == "loop":
            made.append((kind, random.randint(1, 3), program(random, depth - 1)))
        elif kind == "gather":
            made.append((kind, [random.random() < 0.6 for _ in range(random.randint(2, 4))]))
        else:
            made.append((kind,))
    return made


class Told:
    """Numbers what a program does, in the order of its lines."""

    def __init__(self) -> None:
        self.count = 0
        self.said: list[Any] = []

    def next(self) -> str:
        self.count += 1
        return str(self.count)

    def once(self) -> str:
        """The name of a step that is not idempotent."""
        return f"once {self.next()}"


def chancy(name: str, fails: bool = False) -> str:
    """A step in which the process may die, before its effect or behind it."""
    BEGUN[name] += 1
    if CHANCE and CHANCE[0].random() < 0.15:
        raise Killed
    if fails:
        raise ValueError(f"no {name}")
    return f"did {name}"


#: By which steps of random programs die. Empty: none dies.
CHANCE: list[Random] = []


@workflow("workflow_leaf")
def leaf(steps: Steps, name: str) -> str:
    return str(steps.step(chancy, name, idempotent=True))


@workflow("workflow_by_chance", retry={"max_attempts": 1})
def by_chance(steps: Steps, code: list[Any]) -> list[Any]:
    told = Told()
    _obey(steps, code, told)
    return told.said


def _obey(steps: Steps, code: list[Any], told: Told) -> None:
    for op in code:
        match op:
            case ["loop", times, body]:
                for _ in range(times):
                    _obey(steps, body, told)
            case ["step"]:
                told.said.append(steps.step(chancy, told.next(), idempotent=True))
            case ["once"]:
                told.said.append(steps.step(chancy, told.once()))
            case ["fail"]:
                try:
                    steps.step(chancy, told.next(), True, idempotent=True)
                except StepFailed as error:
                    told.said.append(error.reason)
            case ["gather", parts]:
                told.said += steps.gather(
                    Step(chancy, told.next() if each else told.once(), idempotent=each)
                    for each in parts
                )
            case ["sleep"]:
                steps.sleep(0)
            case ["ask"]:
                told.said.append(steps.ask(f"question {told.next()}"))
            case ["child"]:
                told.said.append(steps.child("workflow_leaf", inputs={"name": told.next()}))
            case _:
                told.said.append([steps.random(), str(steps.uuid())][0] >= 0)


@workflow("workflow_live_by_chance", retry={"max_attempts": 1})
async def live_by_chance(steps: AsyncSteps, code: list[Any]) -> list[Any]:
    told = Told()
    await _aobey(steps, code, told)
    return told.said


async def _aobey(steps: AsyncSteps, code: list[Any], told: Told) -> None:
    for op in code:
        match op:
            case ["loop", times, body]:
                for _ in range(times):
                    await _aobey(steps, body, told)
            case ["step"]:
                told.said.append(await steps.step(chancy, told.next(), idempotent=True))
            case ["once"]:
                told.said.append(await steps.step(chancy, told.once()))
            case ["fail"]:
                try:
                    await steps.step(chancy, told.next(), True, idempotent=True)
                except StepFailed as error:
                    told.said.append(error.reason)
            case ["gather", parts]:
                told.said += await asyncio.gather(
                    *(
                        steps.step(chancy, told.next() if each else told.once(), idempotent=each)
                        for each in parts
                    )
                )
            case ["sleep"]:
                await steps.sleep(0)
            case ["ask"]:
                told.said.append(await steps.ask(f"question {told.next()}"))
            case ["child"]:
                told.said.append(await steps.child("workflow_leaf", inputs={"name": told.next()}))
            case _:
                told.said.append([steps.random(), str(steps.uuid())][0] >= 0)


def played_by_chance(
    drivers: list[Driver], client: Client, run: Run, random: Random | None
) -> tuple[Any, list[tuple[str, Any]]]:
    """The answer and the journal of a run whose workers die by chance."""

    def rests() -> bool:
        driver = drivers[0]
        played = True
        while played:
            driver = drivers[0] if random is None else random.choice(drivers)
            dies = random is not None and random.random() < 0.15
            played = play_one(driver, before_its_commit=dies)
        let_time_pass(driver)
        for each in client.inbox().waiting:
            said: Any = f"an answer to {each.question}"
            if each.kind == "in_doubt":
                said = {"result": f"did {each.args['name']}"}
            client.resume(each.run_id, said, interrupt=each.id)
        return client.get(run.id).status.ended

    until(rests, "the end of the run", 60)
    found = client.get(run.id)
    assert found.status is RunStatus.COMPLETED, found.error
    return found.answer, journal(client, run)


def compared(client: Client, drivers: list[Driver], first: int, count: int) -> int:
    """Play programs with deaths and without; how often a process died."""
    before = Killed.count
    for seed in range(first, first + count):
        random = Random(seed)
        code = program(random)
        flow = random.choice(["workflow_by_chance", "workflow_live_by_chance"])
        CHANCE.clear()
        calm = client.submit(flow, "go", {"code": code})
        answer, entries = played_by_chance(drivers, client, calm, None)
        CHANCE.append(Random(seed))
        BEGUN.clear()
        wild = client.submit(flow, "go", {"code": code})
        told, kept = played_by_chance(drivers, client, wild, random)
        assert told == answer, code
        assert sorted(map(str, kept)) == sorted(map(str, entries)), code
        assert all(times == 1 for name, times in BEGUN.items() if name.startswith("once")), code
    CHANCE.clear()
    return Killed.count - before
