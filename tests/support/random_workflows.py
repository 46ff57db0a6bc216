"""Random workflows, played with deaths by chance and without."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from perdure import (
    AsyncSteps,
    Client,
    RoundContext,
    Run,
    RunStatus,
    Step,
    StepFailed,
    Steps,
    workflow,
)
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.waits import WORK
from tests.support.workflow_effects import BEGUN, Killed, journal, let_time_pass, play_one

Op = tuple[Any, ...]
#: The instructions of a program. The last ones are for coroutine functions alone. A `loop` repeats
#: others. `records` are steps at once that record results of their own with `once`. `policies` are
#: steps at once with their own retry policies. `late` exceeds its time limit. `restart` begins the
#: function again with the rest of the program. `finally` waits in a block whose end has an effect.
#: `times` reads the time before a wait and at the end of its block. `named` is a step whose record
#: has the name of a mark.
ALPHABET = (
    "step", "once", "fail", "gather", "sleep", "ask", "chance", "child", "loop",
    "records", "policies", "late", "restart", "finally", "times", "named",
)  # fmt: skip
#: Loops over a set, whose order differs from process to process: each part has a result that names
#: it. The run has the right results, or it has diverged.
OF_SETS = ("set_of_steps", "set_of_onces", "set_of_children", "set_of_asks", "set_at_once")
#: `tasks` are coroutines of two steps, taken from a set or from asyncio's copy of it.
OF_COROUTINES = ("tasks", "cancelled")
WAYS = ("wait", "first", "as_completed", "set", "group")


def program(
    random: Random, depth: int = 2, is_live: bool = False, with_sets: bool = False
) -> list[Op]:
    """Return a random program of the alphabet."""
    kinds = [*ALPHABET, *(OF_COROUTINES if is_live else ()), *(OF_SETS if with_sets else ())]
    made: list[Op] = []
    for _ in range(random.randint(1, 4)):
        kind = random.choice(kinds)
        if kind == "loop" and depth > 0:
            body = program(random, depth - 1, is_live, with_sets)
            made.append((kind, random.randint(1, 3), body))
        elif kind == "gather":
            made.append((kind, [random.random() < 0.6 for _ in range(random.randint(2, 4))]))
        elif kind == "tasks":
            made.append((kind, random.choice(WAYS), random.randint(2, 5)))
        elif kind in OF_SETS:
            made.append((kind, random.randint(2, 4)))
        elif kind == "restart" and depth < MOST_DEPTH:
            made.append(("step",))  # Only the whole program can restart.
        elif kind != "loop":
            made.append((kind,))
    return made


MOST_DEPTH = 2


class Told:
    """Numbers the effects of a program, in the order of its lines."""

    def __init__(self, count: int, said: list[Any]) -> None:
        self.count, self.said = count, list(said)

    def next(self) -> str:
        self.count += 1
        return str(self.count)

    def once(self) -> str:
        """Return the name of a non-idempotent step."""
        return f"once {self.next()}"


def chancy(name: str, fails: bool = False) -> str:
    """Run a step in which the process may die, before its effect or behind it."""
    BEGUN[name] += 1
    if CHANCE and CHANCE[0].random() < 0.15:
        raise Killed
    if fails:
        raise ValueError(f"no {name}")
    return f"did {name}"


#: Results that a step has recorded, and recorded results that were made again.
RECORDED: set[str] = set()
AGAIN: list[str] = []


def records(name: str, context: RoundContext) -> str:
    """Run a step with recorded results, each of which is made once."""

    def once(record: str, what: str) -> Any:
        own = f"{context.run_id} {what}"
        result = context.once(
            record, lambda: AGAIN.append(own) if own in RECORDED else chancy(what)
        )
        RECORDED.add(own)
        return result

    return f"{once('first', f'{name} a')}, {once(f'n{name}', f'{name} b')}"


def records_now(name: str, context: RoundContext) -> str:
    """Run a step with a record of the name of a mark."""
    return str(context.once("now", lambda: chancy(name)))


def is_of_its_name(entry: Any) -> bool:
    """Return whether a result of `OF_SETS` is that of its part. True for other entries."""
    match entry:
        case ["of", name, result]:
            return name in str(result)
    return True


def fails_often(name: str) -> None:
    """Fail each time, as a step."""
    BEGUN[f"try {name}"] += 1
    raise ValueError(name)


async def hangs(name: str) -> None:
    """Run a step that exceeds its time limit."""
    await asyncio.sleep(3600)


#: Retry policies of steps at once.
POLICIES = ({"max_attempts": 1}, {"max_attempts": 3, "initial": 0, "maximum": 0}, None)

#: By which steps of random programs die. Empty: none dies.
CHANCE: list[Random] = []


@workflow("workflow_leaf")
def leaf(steps: Steps, name: str) -> str:
    return str(steps.step(chancy, name, idempotent=True))


@workflow("workflow_by_chance", retry={"max_attempts": 1})
def by_chance(steps: Steps, code: list[Any], count: int = 0, said: list[Any] = []) -> list[Any]:  # noqa: B006
    told = Told(count, said)
    _obey(steps, code, told)
    return told.said


def _obey(steps: Steps, code: list[Any], told: Told) -> None:
    for place, op in enumerate(code):
        match op:
            case ["restart"]:
                told.said.append(steps.step(chancy, told.next(), idempotent=True))
                rest = {"code": code[place + 1 :], "count": told.count, "said": told.said}
                steps.restart(rest)
            case ["records"]:
                told.said += steps.gather(
                    Step(records, told.next(), name="records", idempotent=True) for _ in range(3)
                )
            case ["policies"]:
                try:
                    steps.gather(
                        Step(fails_often, told.next(), idempotent=True, retry=policy)
                        for policy in POLICIES
                    )
                except StepFailed as error:
                    told.said.append(error.reason)
            case ["late"]:
                try:
                    steps.step(hangs, told.next(), idempotent=True, timeout=0.01)
                except StepFailed as error:
                    told.said.append(error.error)
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
            case ["finally"]:
                try:
                    steps.sleep(0)
                    told.said.append(steps.step(chancy, told.next(), idempotent=True))
                finally:
                    told.said.append(steps.step(chancy, told.once()))
            case ["times"]:
                began = steps.now()
                try:
                    steps.sleep(0)
                finally:
                    told.said.append(steps.now() >= began)
            case ["named"]:
                steps.now()
                told.said.append(steps.step(records_now, told.next(), idempotent=True))
            case ["set_at_once", many]:
                names = list({f"part {told.next()}" for _ in range(many)})
                found = steps.gather(Step(chancy, name, idempotent=True) for name in names)
                told.said += sorted(
                    ["of", name, got] for name, got in zip(names, found, strict=True)
                )
            case [kind, many] if kind in OF_SETS:
                results = []
                for name in {f"part {told.next()}" for _ in range(many)}:
                    if kind == "set_of_children":
                        got = steps.child("workflow_leaf", inputs={"name": name})
                    elif kind == "set_of_asks":
                        got = steps.ask(f"question {name}")
                    else:
                        got = steps.step(chancy, name, idempotent=kind == "set_of_steps")
                    results.append(["of", name, got])
                told.said += sorted(results)
            case ["sleep"]:
                steps.sleep(0)
            case ["ask"]:
                told.said.append(steps.ask(f"question {told.next()}"))
            case ["child"]:
                told.said.append(steps.child("workflow_leaf", inputs={"name": told.next()}))
            case _:
                told.said.append([steps.random(), str(steps.uuid())][0] >= 0)


@workflow("workflow_live_by_chance", retry={"max_attempts": 1})
async def live_by_chance(
    steps: AsyncSteps,
    code: list[Any],
    count: int = 0,
    said: list[Any] = [],  # noqa: B006
) -> list[Any]:
    told = Told(count, said)
    await _aobey(steps, code, told)
    return told.said


async def _two_steps(steps: AsyncSteps, name: str) -> list[str]:
    first = await steps.step(chancy, name, name="first", idempotent=True)
    return [first, await steps.step(chancy, f"{name} too", name="second", idempotent=True)]


async def _tasks(steps: AsyncSteps, way: str, names: list[str]) -> list[Any]:
    """Return the results of several coroutines, in the order in which a set has them."""
    works = [_two_steps(steps, name) for name in names]
    if way == "as_completed":
        return [await each for each in asyncio.as_completed(works)]
    if way == "group":
        async with asyncio.TaskGroup() as group:
            made = {group.create_task(work) for work in works}
        return [each.result() for each in made]
    tasks = {asyncio.ensure_future(work) for work in works}
    if way == "set":
        return [await each for each in tasks]
    found: list[Any] = []
    while tasks:
        until_first = asyncio.FIRST_COMPLETED if way == "first" else asyncio.ALL_COMPLETED
        done, tasks = await asyncio.wait(tasks, return_when=until_first)
        for each in done:
            found.append(each.result())
            await steps.step(chancy, f"behind {each.result()[0]}", name="behind", idempotent=True)
    return found


async def _aobey(steps: AsyncSteps, code: list[Any], told: Told) -> None:
    for place, op in enumerate(code):
        match op:
            case ["restart"]:
                told.said.append(await steps.step(chancy, told.next(), idempotent=True))
                rest = {"code": code[place + 1 :], "count": told.count, "said": told.said}
                steps.restart(rest)
            case ["tasks", way, many]:
                told.said += await _tasks(steps, way, [told.next() for _ in range(many)])
            case ["cancelled"]:
                task = asyncio.ensure_future(steps.step(chancy, f"cancelled {told.next()}"))
                await asyncio.sleep(0)
                task.cancel()
            case ["records"]:
                works = (
                    steps.step(records, told.next(), name="records", idempotent=True)
                    for _ in range(3)
                )
                told.said += await asyncio.gather(*works)
            case ["policies"]:
                tries = [
                    steps.step(fails_often, told.next(), idempotent=True, retry=policy)
                    for policy in POLICIES
                ]
                failed = await asyncio.gather(*tries, return_exceptions=True)
                told.said += [str(each) for each in failed]
            case ["late"]:
                try:
                    await steps.step(hangs, told.next(), idempotent=True, timeout=0.01)
                except StepFailed as error:
                    told.said.append(error.error)
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
            case ["finally"]:
                try:
                    await steps.sleep(0)
                    told.said.append(await steps.step(chancy, told.next(), idempotent=True))
                finally:
                    told.said.append(await steps.step(chancy, told.once()))
            case ["times"]:
                began = steps.now()
                try:
                    await steps.sleep(0)
                finally:
                    told.said.append(steps.now() >= began)
            case ["named"]:
                steps.now()
                told.said.append(await steps.step(records_now, told.next(), idempotent=True))
            case ["set_at_once", many]:
                names = list({f"part {told.next()}" for _ in range(many)})
                found = await asyncio.gather(
                    *(steps.step(chancy, name, idempotent=True) for name in names)
                )
                told.said += sorted(
                    ["of", name, got] for name, got in zip(names, found, strict=True)
                )
            case [kind, many] if kind in OF_SETS:
                results = []
                for name in {f"part {told.next()}" for _ in range(many)}:
                    if kind == "set_of_children":
                        got = await steps.child("workflow_leaf", inputs={"name": name})
                    elif kind == "set_of_asks":
                        got = await steps.ask(f"question {name}")
                    else:
                        got = await steps.step(chancy, name, idempotent=kind == "set_of_steps")
                    results.append(["of", name, got])
                told.said += sorted(results)
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
    """Return the answer and the journal of a run whose workers die by chance."""

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

    until(rests, "the end of the run", WORK)
    found = client.get(run.id)
    assert found.status is RunStatus.COMPLETED, found.error
    return found.answer, journal(client, run)


def compared(client: Client, drivers: list[Driver], first: int, count: int) -> int:
    """Play programs with deaths and without; how often a process died."""
    before = Killed.count
    for seed in range(first, first + count):
        random = Random(seed)
        is_live = random.random() < 0.5
        code = program(random, MOST_DEPTH, is_live)
        flow = "workflow_live_by_chance" if is_live else "workflow_by_chance"
        CHANCE.clear()
        calm = client.submit(flow, "go", {"code": code})
        answer, entries = played_by_chance(drivers, client, calm, None)
        CHANCE.append(Random(seed))
        BEGUN.clear()
        wild = client.submit(flow, "go", {"code": code})
        told, kept = played_by_chance(drivers, client, wild, random)
        assert told == answer, code
        named = [
            sorted(str(each).replace(run.id, "RUN") for each in entries_of_run)
            for run, entries_of_run in ((wild, kept), (calm, entries))
        ]
        assert named[0] == named[1], code
        assert all(times == 1 for name, times in BEGUN.items() if name.startswith("once")), code
        assert not AGAIN and not any(name.startswith("cancelled") for name in BEGUN), code
    CHANCE.clear()
    return Killed.count - before
