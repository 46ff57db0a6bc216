"""Begun requests are the next entries of the journal: changed code must come to them first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    Ask,
    AsyncSteps,
    Client,
    File,
    Retry,
    RoundContext,
    Run,
    RunStatus,
    Settings,
    Step,
    StepFailed,
    Steps,
    workflow,
)
from tests.support.cases import EachCase, cases_of
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.waits import WORK
from tests.support.workflow_effects import (
    DEADLY,
    DONE,
    FAILING,
    effect,
    let_time_pass,
    nothing_done,
    play,
    play_one,
    play_until_it_waits_for_code,
)

__all__ = ["nothing_done"]

#: The order in which the workflows ask, as of a set in one process. A test changes it.
ORDER: list[str] = []
#: What a changed code does before all else.
BEFORE: list[str] = []
FAST = Retry(5, initial=0.0, maximum=0.0)


@pytest.fixture(autouse=True)
def first_version() -> None:
    nothing()


@workflow("begun_child")
def child(steps: Steps, goal: str) -> str:
    steps.wait_for("go")
    return f"answer of {goal}"


def before(steps: Steps) -> None:
    marked(steps)
    if "weigh" in BEFORE or ("patched" in BEFORE and steps.patched("weigh")):
        steps.step(effect, "weigh", name="weigh", idempotent=True)


def marked(steps: Steps | AsyncSteps) -> None:
    """Raise ValueError if the run does not take the new code that the test has from the beginning."""
    if "marked" in BEFORE and not steps.patched("new"):
        raise ValueError("the run took the old way")


@workflow("begun_children")
def children(steps: Steps) -> list[Any]:
    before(steps)
    return sorted([each, steps.child("begun_child", each)] for each in ORDER)


@workflow("begun_asks_one")
def asks_one(steps: Steps) -> list[Any]:
    before(steps)
    return sorted([each, steps.ask(f"How much is {each}?")] for each in ORDER)


@workflow("begun_asks_all")
def asks_all(steps: Steps) -> list[Any]:
    before(steps)
    answers = steps.gather(Ask(f"How much is {each}?", name="price") for each in ORDER)
    return sorted(map(list, zip(ORDER, answers, strict=True)))


@workflow("begun_doubt")
def doubt(steps: Steps) -> list[Any]:
    before(steps)
    return [steps.step(effect, f"charge {each}", name="charge") for each in ORDER]


@workflow("begun_gather")
async def gather(steps: AsyncSteps) -> list[Any]:
    marked(steps)
    if "weigh" in BEFORE or ("patched" in BEFORE and steps.patched("weigh")):
        await steps.step(effect, "weigh", name="weigh", idempotent=True)
    works = (steps.step(effect, each, name="do", idempotent=True) for each in ORDER)
    return list(await asyncio.gather(*works))


@workflow("begun_retried")
def retried(steps: Steps) -> str:
    before(steps)
    return str(steps.step(effect, "pay", idempotent=True, retry=FAST))


@workflow("begun_slept")
def slept(steps: Steps) -> str:
    before(steps)
    steps.sleep("1h")
    return "awake"


@workflow("begun_strict", arguments="strict")
def strict(steps: Steps) -> str:
    return str(steps.step(effect, f"pay {ORDER[0]}", name="pay", idempotent=True, retry=FAST))


def begin(settings: Settings, flow: str) -> str:
    """Submit a run, and play it in a process of its own until something is begun; its id."""
    DEADLY.update(
        {"charge a": 1, "b": 1} if flow in ("begun_doubt", "begun_gather", "begun_options") else {}
    )
    FAILING.update({"pay": 1, "pay a": 1})
    with driving(settings) as worker:
        run_id = worker.client.submit(flow, flow).id
        until(
            lambda: play_one(worker) and (worker.client.get(run_id).phase in RESTS or bool(DONE)),
            "something to be begun",
        )
        while not DONE and play_one(worker):  # Child runs come to their waits.
            pass
    return run_id


#: Phases of a run that waits for something other than a worker.
RESTS = ("parked", "interrupted")


def answer(client: Client, run_id: str) -> None:
    """End what a run waits for."""
    for each in client.inbox().waiting:
        client.resume(each.run_id, "retry" if each.kind == "in_doubt" else each.question)
    for node in client.tree(run_id).children:
        if client.get(node.id).phase == "parked":
            client.signal(node.id, "go")


def play_on(settings: Settings, run_id: str) -> Run:
    """Let another process play the run, until it ends or rests for long."""
    with driving(settings) as other:
        client = other.client

        def ends() -> bool:
            answer(client, run_id)
            while play_one(other):
                pass
            let_time_pass(other)
            return client.get(run_id).status.ended

        until(ends, "the end of the run", WORK)
        return client.get(run_id)


@workflow("begun_map")
def maps(steps: Steps) -> list[str]:
    return steps.map("begun_child", set(ORDER) if "set" in BEFORE else ORDER)


def test_a_map_that_an_older_release_has_begun_over_a_set_waits_for_that_code(
    settings: Settings, client: Client
) -> None:
    ORDER[:] = ["a", "b"]
    run = client.get(begin(settings, "begun_map"))
    client._store.redis.hset(client._store.keys.run(run.id), "wait_over", "null")  # no digests
    BEFORE[:] = ["set"]
    answer(client, run.id)
    play_until_it_waits_for_code(client, settings, run)
    BEFORE.clear()
    assert play_on(settings, run.id).answer == ["answer of a", "answer of b"]


FLOWS = ("children", "asks_one", "asks_all", "doubt", "gather")


def test_a_begun_request_is_not_taken_for_another_of_its_name(
    settings: Settings, each_case: EachCase
) -> None:
    """In another process, a set may have another order."""

    def check(flow: str) -> None:
        nothing()
        run_id = begin(settings, f"begun_{flow}")
        done = dict(DONE)
        ORDER[:] = ["c", "a", "b"]
        run = play_on(settings, run_id)
        assert (run.status, dict(DONE)) == (RunStatus.ERRORED, done)
        assert "with arguments of digest" in str(run.error)

    each_case(cases_of(FLOWS), check)


def test_what_was_begun_goes_on_with_the_same_order(
    settings: Settings, each_case: EachCase
) -> None:
    def check(flow: str) -> None:
        nothing()
        run = play_on(settings, begin(settings, f"begun_{flow}"))
        assert run.status is RunStatus.COMPLETED, run.error

    each_case(cases_of((*FLOWS, "retried", "strict")), check)


BEGIN = (*FLOWS, "retried", "slept")


def test_a_step_before_what_was_begun_is_not_carried_out(
    settings: Settings, each_case: EachCase
) -> None:
    def check(flow: str) -> None:
        nothing()
        run_id = begin(settings, f"begun_{flow}")
        done = dict(DONE)
        BEFORE.append("weigh")
        if flow == "slept":
            wake(settings, run_id)
        run = play_on(settings, run_id)
        assert (run.status, dict(DONE)) == (RunStatus.ERRORED, done)
        assert "It comes to weigh" in str(run.error)

    each_case(cases_of(BEGIN), check)


def test_patched_is_false_before_what_was_begun(settings: Settings, each_case: EachCase) -> None:
    def check(flow: str) -> None:
        nothing()
        run_id = begin(settings, f"begun_{flow}")
        BEFORE.append("patched")
        if flow == "slept":
            wake(settings, run_id)
        run = play_on(settings, run_id)
        assert run.status is RunStatus.COMPLETED, run.error
        assert DONE["weigh"] == 0

    each_case(cases_of(BEGIN), check)


def test_patched_stays_true_behind_what_it_let_begin(
    settings: Settings, each_case: EachCase
) -> None:
    def check(flow: str) -> None:
        nothing()
        BEFORE.append("marked")
        run_id = begin(settings, f"begun_{flow}")
        if flow == "slept":
            wake(settings, run_id)
        run = play_on(settings, run_id)
        assert run.status is RunStatus.COMPLETED, run.error

    each_case(cases_of(BEGIN), check)


def test_a_step_may_be_in_doubt_twice(settings: Settings) -> None:
    run_id = begin(settings, "begun_doubt")
    DEADLY["charge a"] += 1
    run = play_on(settings, run_id)
    assert run.status is RunStatus.COMPLETED, run.error
    assert DONE["charge a"] == 3


class Meter:
    """A service whose fields change with each call."""

    calls = 0

    def read(self, name: str) -> str:
        self.calls += 1
        return effect(name)


METER = Meter()


@workflow("begun_meter")
def metered(steps: Steps) -> list[Any]:
    return list(
        steps.gather(
            Step(METER.read, each, name="read", idempotent=True, retry=FAST)
            for each in ("a", "pay")
        )
    )


def looks_like_a_record(context: RoundContext) -> str:
    told = context.once("next", lambda: {"kind": "step", "of": "x"})
    context.once("other", lambda: {"begun": "step"})
    return effect("pay") if told else ""


@workflow("begun_once")
def onced(steps: Steps) -> str:
    return str(steps.step(looks_like_a_record, idempotent=True, retry=FAST))


@pytest.mark.parametrize("flow", ["begun_meter", "begun_once"])
def test_unchanged_code_does_not_diverge(settings: Settings, flow: str) -> None:
    run_id = begin(settings, flow)
    run = play_on(settings, run_id)
    assert run.status is RunStatus.COMPLETED, run.error


def test_a_retry_by_a_person_forgets_a_step_that_failed(settings: Settings) -> None:
    FAILING["pay"] = 5
    with driving(settings) as worker:
        run = worker.client.submit("begun_retried", "x")
        assert play(worker, run).status is RunStatus.ERRORED
        BEFORE.append("weigh")
        worker.client.retry(run.id)
        assert play(worker, run).status is RunStatus.COMPLETED
    assert DONE["weigh"] == 1


def test_arguments_of_a_step_that_is_tried_again_may_change_unless_they_are_strict(
    settings: Settings,
) -> None:
    run_id = begin(settings, "begun_strict")
    ORDER[:] = ["c"]
    assert play_on(settings, run_id).status is RunStatus.ERRORED
    assert DONE["pay c"] == 0


def test_a_step_in_doubt_stays_in_doubt_when_its_options_change(settings: Settings) -> None:
    run_id = begin(settings, "begun_options")
    OPTIONS["timeout"] = 60.0
    with driving(settings) as other:
        assert play(other, other.client.get(run_id)).status is RunStatus.INTERRUPTED
    assert DONE["charge a"] == 1


def report(name: str) -> File:
    effect(name)
    return File(f"{name}.txt", name.encode(), "text/plain")


@workflow("begun_files")
def files(steps: Steps, approval: str | None) -> Any:
    works = [Step(report, each, name=each, approval=approval) for each in "ab"]
    return steps.gather([*works, Step(effect, "pay", idempotent=True, retry=FAST)])


@pytest.mark.parametrize("approval", [None, "always"])
def test_a_file_beside_another_step_is_made_once(
    client: Client, driver: Driver, approval: str | None
) -> None:
    FAILING["pay"] = 2
    run = client.submit("begun_files", inputs={"approval": approval})
    while not play(driver, run).status.ended:
        [question] = client.inbox().waiting
        assert question.kind == "approval"
        client.resume(run.id, "approve")
    done = client.get(run.id)
    assert done.status is RunStatus.COMPLETED, done.error
    assert dict(DONE) == {"a": 1, "b": 1, "pay": 3}
    contents = [client.file(run.id, each["file"]).content for each in done.answer[:2]]
    assert contents == [b"a", b"b"]


@workflow("begun_flow_retry", retry=Retry(2, on=["KeyError"], not_on=["ValueError"], within=0.0))
def flow_retry(steps: Steps, own: dict[str, Any], together: bool) -> Any:
    step = Step(effect, "pay", idempotent=True, retry={**own, "initial": 0.0, "maximum": 0.0})
    try:
        if together:
            return steps.gather([step, Step(effect, "b", name="b", idempotent=True)])
        return steps.step(step.function, *step.args, **step.options)
    except StepFailed as error:
        return error.error


def test_the_retry_policy_of_a_step_is_completed_by_the_flows_also_beside_others(
    client: Client, driver: Driver, each_case: EachCase
) -> None:
    own = {"max_attempts": 4, "on": ["ValueError"], "not_on": ["OSError"], "within": 60.0}

    def check(together: bool, fails: int, more: dict[str, Any], tries: int) -> None:
        nothing()
        FAILING["pay"] = fails
        inputs = {"own": {**own, **more}, "together": together}
        assert play(driver, client.submit("begun_flow_retry", inputs=inputs)).answer
        assert DONE["pay"] == tries

    rows = {"goes on": (3, {}, 4), "all attempts": (9, {}, 4), "not on": (9, {"not_on": ()}, 1)}
    each_case(
        {
            f"{name}, {together}": (together, *row)
            for name, row in rows.items()
            for together in (False, True)
        },
        check,
    )


OPTIONS: dict[str, Any] = {}


@workflow("begun_options")
def options(steps: Steps) -> str:
    return str(steps.step(effect, "charge a", name="charge", **OPTIONS))


def nothing() -> None:
    """Forget the effects of an earlier case, and its changed code."""
    for counter in (DONE, DEADLY, FAILING):
        counter.clear()
    for changed in (BEFORE, OPTIONS):
        changed.clear()
    ORDER[:] = ["a", "b", "c"]


def wake(settings: Settings, run_id: str) -> None:
    """End the sleep of a parked run."""
    with driving(settings) as worker:
        store = worker.engine.store
        store.redis.hset(store.keys.run(run_id), "wait_until", 1)
        store.redis.zadd(store.keys.due, {run_id: 1})
        worker.sweeper.sweep()
