"""Workflows on a real server: steps that happen once, after any death, and the decisions of a
person.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from perdure import (
    AsyncSteps,
    CircularFlow,
    Client,
    FatalError,
    Node,
    RetryableError,
    RoundContext,
    RunStatus,
    Settings,
    Step,
    StepFailed,
    Steps,
    register,
    workflow,
)
from perdure.testing import crash_lab
from perdure.worker.presentation.timeline import round_text
from tests.support.random_workflows import compared
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import (
    BEGUN,
    DEADLY,
    DONE,
    FAILING,
    aeffect,
    effect,
    journal,
    let_time_pass,
    nothing_done,
    other,
    play,
    play_one,
)

__all__ = ["nothing_done", "other"]


@workflow("workflow_fan")
async def fan(steps: AsyncSteps) -> list[str]:
    return await asyncio.gather(
        *(steps.step(effect, f"part {number}", idempotent=True) for number in range(5))
    )


@workflow("workflow_item")
def item_of_a_map(steps: Steps) -> str:
    if steps.goal == "bad":
        raise FatalError("bad")
    return steps.goal


@workflow("workflow_waits")
def waits(steps: Steps) -> dict[str, Any]:
    steps.sleep(0)
    signal = steps.wait_for("paid", timeout="1h")
    late = steps.wait_for("never", timeout=0)
    leaf = steps.child("workflow_order", inputs={"item": "leaf"})
    leaves = steps.map("workflow_order", ["a", "b"], inputs=lambda item: {"item": item})
    some = steps.map("workflow_item", ["one", "bad", "two"], wait="settled")
    one = steps.map("workflow_item", ["good", "later"], wait="any", max_concurrency=1)
    try:
        steps.child("workflow_order", inputs={"item": "leaf", "color": 1})
    except StepFailed as error:
        failed = error.error
    return {
        "signal": signal,
        "late": late,
        "leaf": leaf[0],
        "leaves": [each[0] for each in leaves],
        "some": some,
        "one": one,
        "failed": failed,
    }


@workflow("workflow_of_generations")
def generations(steps: Steps, left: int) -> str:
    steps.step(effect, f"generation {left}", idempotent=True)
    if left:
        steps.restart({"left": left - 1})
    return "the last"


ORDERED = ["charge book is done", "ship book is done", "mail book is done"]


@pytest.mark.parametrize("flow", ["workflow_order", "workflow_live_order"])
@pytest.mark.parametrize(
    "deaths", [(), ("charge book",), ("ship book", "ship book"), ("mail book",)]
)
def test_only_the_step_in_hand_is_done_again(
    client: Client, driver: Driver, flow: str, deaths: tuple[str, ...]
) -> None:
    DEADLY.update(deaths)
    done = play(driver, client.submit(flow, "go", {"item": "book"}))
    assert (done.status, done.answer) == (RunStatus.COMPLETED, ORDERED)
    expected = Counter(["charge book", "ship book", "mail book", *deaths])
    assert expected == +DONE and not +DEADLY, "each death has happened"
    assert done.state.step == 3, "each step is a round, and the last one ends the run"


@pytest.mark.parametrize("flow", ["workflow_order", "workflow_live_order"])
def test_a_death_before_each_commit_changes_nothing(
    client: Client, driver: Driver, flow: str
) -> None:
    run = client.submit(flow, "go", {"item": "book"})
    while play_one(driver, before_its_commit=True) and play_one(driver):
        pass
    done = client.get(run.id)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, ORDERED)
    assert [name for name, _ in journal(client, run)] == ["charge", "ship", "mail"]


def test_a_step_that_may_have_happened_asks_a_person(client: Client, driver: Driver) -> None:
    DEADLY["ship book"] = 1
    run = client.submit("workflow_order", "go", {"item": "book", "idempotent": False})
    assert play(driver, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert question.command == "ship" and DONE["ship book"] == 1
    client.resume(run.id, {"result": "shipped, says the carrier"})
    done = play(driver, run)
    assert done.answer == ["charge book is done", "shipped, says the carrier", "mail book is done"]
    assert DONE["ship book"] == 1


def test_a_person_may_have_it_done_again_or_call_it_failed(client: Client, driver: Driver) -> None:
    for answer, status in (
        ("retry", RunStatus.COMPLETED),
        ({"tell": "it is lost"}, RunStatus.ERRORED),
    ):
        DEADLY["ship book"] = 1
        run = client.submit("workflow_order", "go", {"item": "book", "idempotent": False})
        assert play(driver, run).status is RunStatus.INTERRUPTED
        client.resume(run.id, answer)
        done = play(driver, run)
        assert done.status is status
    assert done.error is not None and "step ship failed: Refused: it is lost" in done.error


@pytest.mark.parametrize("deadly", [[3], [1, 3, 4], [0, 1, 2, 3, 4]])
def test_siblings_that_are_done_are_kept(client: Client, driver: Driver, deadly: list[int]) -> None:
    DEADLY.update(f"part {number}" for number in deadly)
    done = play(driver, client.submit("workflow_fan", "go"))
    assert done.answer == [f"part {number} is done" for number in range(5)]
    assert {f"part {number}": 1 + (number in deadly) for number in range(5)} == DONE


async def loop_of_step() -> int:
    return id(asyncio.get_running_loop())


@workflow("workflow_loops")
def loops(steps: Steps) -> list[int]:
    """Steps that are coroutines, of a plain function."""
    return [steps.step(loop_of_step, idempotent=True) for _ in range(3)]


@workflow("workflow_live_loops")
async def live_loops(steps: AsyncSteps) -> list[int]:
    return [await steps.step(loop_of_step, idempotent=True) for _ in range(3)]


def test_all_steps_of_a_process_share_an_event_loop(client: Client, driver: Driver) -> None:
    answers = [
        play(driver, client.submit(flow, "go")).answer
        for flow in ("workflow_loops", "workflow_live_loops")
    ]
    assert len({loop for answer in answers for loop in answer}) == 1


def test_an_idempotent_step_is_tried_again_and_then_fails(
    client: Client, settings: Settings
) -> None:
    quick = settings.model_copy(update={"max_attempts": 3, "retry_delay_seconds": 0.001})
    with driving(quick) as driver:
        FAILING["ship book"] = 2
        assert (
            play(driver, client.submit("workflow_order", "go", {"item": "book"})).answer == ORDERED
        )
        FAILING["ship book"] = 3
        run = client.submit("workflow_order", "go", {"item": "book"})
        failed = play(driver, run)
        assert failed.status is RunStatus.ERRORED and failed.error is not None
        assert "step ship failed: ValueError: ship book failed" in failed.error
        assert DONE["ship book"] == 6
        client.retry(run.id)
        done = play(driver, run)
    assert done.answer == ORDERED and DONE["charge book"] == 2, "once for each run"


@register("asks_whether_it_may_retry")
class RetryAsker(CircularFlow):
    """Fails each time, and keeps the answers of ``may_retry`` to each of its errors before."""

    topology = (Node("Executor", "attempt"),)

    def attempt(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        error = context.inputs["error"]
        raised: Exception = FatalError("never") if error == "fatal" else RetryableError("busy", 0)
        MAY_RETRY.append(context.may_retry(raised))
        raise raised


MAY_RETRY: list[bool] = []


@pytest.mark.parametrize(
    ("error", "told"), [("busy", [True, True, False]), ("fatal", [False])], ids=["busy", "fatal"]
)
def test_a_round_knows_whether_it_may_be_retried(
    client: Client, settings: Settings, error: str, told: list[bool]
) -> None:
    MAY_RETRY.clear()
    quick = settings.model_copy(update={"max_attempts": 3, "retry_delay_seconds": 0.001})
    with driving(quick) as driver:
        failed = play(driver, client.submit("asks_whether_it_may_retry", "go", {"error": error}))
    assert failed.status is RunStatus.ERRORED and told == MAY_RETRY


def test_another_error_is_not_tried_again_and_a_person_may_retry_the_run(
    client: Client, driver: Driver
) -> None:
    FAILING["ship book"] = 1
    run = client.submit("workflow_order", "go", {"item": "book", "idempotent": False})
    assert play(driver, run).status is RunStatus.ERRORED
    assert [name for name, _ in journal(client, run)] == ["charge"]
    client.retry(run.id)
    assert play(driver, run).answer == ORDERED
    assert Counter({"charge book": 1, "ship book": 2, "mail book": 1}) == DONE


def test_waits_hold_no_worker_and_children_are_runs(client: Client, driver: Driver) -> None:
    run = client.submit("workflow_waits", "go")

    def parked() -> bool:
        driver.sweep_and_play()
        return client.why(run.id).code.value == "waiting-for-a-signal"

    until(parked, "the wait for a signal")
    client.signal(run.id, "paid", {"amount": 3}, by="ann")
    done = play(driver, run)
    assert done.answer == {
        "signal": {"signal": "paid", "payload": {"amount": 3}, "by": "ann"},
        "late": None,
        "leaf": "charge leaf is done",
        "leaves": ["charge a is done", "charge b is done"],
        "some": ["one", None, "two"],
        "one": ["good", None],
        "failed": "InvalidChild",
    }
    assert len(client.children(run.id).runs) == 8


def test_a_workflow_may_begin_anew(client: Client, driver: Driver) -> None:
    run = client.submit("workflow_of_generations", "go", {"left": 3})
    assert play(driver, run).answer == "the last"
    assert [name for name, _ in journal(client, run)] == ["effect"]
    assert Counter(f"generation {left}" for left in range(4)) == DONE


def test_a_coroutine_stands_still_between_rounds_of_a_process(
    client: Client, driver: Driver, other: Driver
) -> None:
    assert (
        play(driver, client.submit("workflow_live_order", "go", {"item": "book"})).answer == ORDERED
    )
    assert BEGUN["live"] == 1
    run = client.submit("workflow_live_order", "go", {"item": "book"})
    for each in (driver, other, driver):
        assert play_one(each)
    assert client.get(run.id).answer == ORDERED
    assert BEGUN["live"] == 4, "another process has committed meanwhile, so it is run again"
    rounds = [each.data for each in client.events(run.id) if each.type == "committed"]
    assert [each.get("replayed") for each in rounds] == [None, 1, 2]
    assert round_text(rounds[-1]) == "mail mail book: mail book is done · 2 replayed"


#: The reports of a coroutine about itself.
TOLD: list[str] = []
HAS_BEGUN = threading.Event()


async def sleeps_long() -> None:
    HAS_BEGUN.set()
    try:
        await asyncio.sleep(60)
        TOLD.append("slept")
    finally:
        TOLD.append("cleaned up")


@workflow("workflow_sleeping")
def sleeping(steps: Steps) -> None:
    steps.step(sleeps_long, idempotent=True)


@workflow("workflow_live_sleeping")
async def live_sleeping(steps: AsyncSteps) -> None:
    await steps.step(sleeps_long, idempotent=True)


@pytest.mark.parametrize("flow", ["workflow_sleeping", "workflow_live_sleeping"])
def test_a_heartbeat_cancels_the_coroutine_of_a_run_that_was_stopped(
    client: Client, settings: Settings, flow: str
) -> None:
    TOLD.clear()
    HAS_BEGUN.clear()
    rare = settings.model_copy(update={"lease_seconds": 3600.0, "heartbeat_seconds": 1200.0})
    with driving(rare) as driver:
        run = client.submit(flow, "go")
        playing = threading.Thread(target=play_one, args=(driver,), daemon=True)
        playing.start()
        assert HAS_BEGUN.wait(20)
        client.request_stop(run.id, mode="now")
        assert TOLD == []
        driver.engine.heartbeat.beat()  # The next one would come in twenty minutes.
        playing.join(20)
        assert not playing.is_alive()
    assert TOLD == ["cleaned up"]
    assert client.get(run.id).status is RunStatus.STOPPED


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_come_to_the_same_under_random_kills(
    client: Client, driver: Driver, other: Driver, seed: int
) -> None:
    assert compared(client, [driver, other], seed, 5) > 0


@pytest.mark.slow
@pytest.mark.timeout(600)  # three hundred programs
def test_very_many_random_programs_do(client: Client, driver: Driver, other: Driver) -> None:
    assert compared(client, [driver, other], 1_000, 300) > 300


# The crash lab


@pytest.mark.parametrize("flow", ["workflow_order", "workflow_live_order"])
def test_the_crash_lab_plays_workflows(flow: str) -> None:
    assert crash_lab(flow, "go", inputs={"item": "book"}).stories > 20


# Siblings of which one may have happened


@workflow("workflow_siblings")
async def siblings(steps: AsyncSteps, idempotent: list[bool]) -> list[str]:
    return await asyncio.gather(
        *(
            steps.step(keyed, f"part {number}", idempotent=each)
            for number, each in enumerate(idempotent)
        )
    )


@workflow("workflow_plain_siblings")
def plain_siblings(steps: Steps, idempotent: list[bool]) -> list[str]:
    return steps.gather(
        Step(keyed, f"part {number}", idempotent=each) for number, each in enumerate(idempotent)
    )


#: The keys that each part was carried out under.
KEYS: dict[str, list[str]] = {}


def keyed(name: str, context: RoundContext) -> str:
    KEYS.setdefault(name, []).append(context.idempotency_key)
    return effect(name)


@pytest.mark.parametrize("flow", ["workflow_siblings", "workflow_plain_siblings"])
@pytest.mark.parametrize(
    "idempotent", [[False, False, False], [False, False], [True, False], [False, True, False]]
)
@pytest.mark.parametrize("dying", ["all", "last"])
def test_no_sibling_that_may_have_happened_is_carried_out_again_unasked(
    client: Client, driver: Driver, flow: str, idempotent: list[bool], dying: str
) -> None:
    KEYS.clear()
    parts = [f"part {number}" for number in range(len(idempotent))]
    deadly = parts if dying == "all" else parts[-1:]
    DEADLY.update(deadly)
    run = client.submit(flow, "go", {"idempotent": idempotent})
    asked = []
    while play(driver, run).status is RunStatus.INTERRUPTED:
        [question] = client.inbox().waiting
        asked.append(question.command)
        client.resume(run.id, {"result": "it has happened"}, interrupt=question.id)
    done = client.get(run.id)
    doubtful = [
        name for name, each in zip(parts, idempotent, strict=True) if not each and name in deadly
    ]
    assert len(asked) == len(set(asked)) == len(doubtful), "each is asked about, once"
    for name, each in zip(parts, idempotent, strict=True):
        assert DONE[name] == 1 + (each and name in deadly), name
        assert len(set(KEYS[name])) == 1, "every attempt has the same key"
    assert done.answer == [
        "it has happened" if name in doubtful else f"{name} is done" for name in parts
    ]


@pytest.mark.parametrize("flow", ["workflow_siblings", "workflow_plain_siblings"])
def test_a_retry_by_a_person_tries_only_the_siblings_that_failed_again(
    client: Client, driver: Driver, flow: str
) -> None:
    FAILING["part 1"] = 2
    run = client.submit(flow, "go", {"idempotent": [False, False, False]})
    for failures in (1, 2):
        failed = play(driver, run)
        assert failed.error is not None and "part 1 failed" in failed.error, failures
        assert {"part 0": 1, "part 1": failures, "part 2": 1} == DONE
        client.retry(run.id)
    assert play(driver, run).answer == [f"part {number} is done" for number in range(3)]
    assert DONE == {"part 0": 1, "part 1": 3, "part 2": 1}


@pytest.mark.parametrize("flow", ["workflow_siblings", "workflow_plain_siblings"])
def test_a_sibling_that_failed_is_not_carried_out_again_because_a_worker_is_lost(
    client: Client, driver: Driver, flow: str
) -> None:
    FAILING["part 1"] = 1
    run = client.submit(flow, "go", {"idempotent": [True, False]})
    play_one(driver)  # the first round asks for the plan
    play_one(driver, before_its_commit=True)
    failed = play(driver, run)
    assert DONE["part 1"] == 1 and failed.error is not None and "part 1 failed" in failed.error


def test_after_a_retry_a_person_is_asked_about_a_doubtful_step_again(
    client: Client, driver: Driver
) -> None:
    DEADLY["charge book"] = 1
    run = client.submit("workflow_order", "go", {"item": "book", "idempotent": False})
    for answer in ({"tell": "the bank says no"}, {"tell": "it still says no"}, {"result": "paid"}):
        asked = play(driver, run)
        assert asked.status is RunStatus.INTERRUPTED, answer
        client.resume(run.id, answer)
        done = play(driver, run)
        if "tell" in answer:
            assert done.error is not None and answer["tell"] in done.error
            client.retry(run.id)
    assert done.answer == ["paid", *ORDERED[1:]] and DONE["charge book"] == 1


@workflow("workflow_that_listens")
def listens(steps: Steps) -> Any:
    order = steps.step(effect, "order:4711", idempotent=True).split()[0]
    steps.listen(order)
    return steps.wait_for("paid")["payload"]


def test_a_workflow_takes_a_topic(client: Client, driver: Driver, other: Driver) -> None:
    client.signal(topic="order:4711", name="paid", payload=12)
    run = client.submit("workflow_that_listens", "go")
    while not client.get(run.id).status.ended:
        assert play_one(driver) or play_one(other)
    assert client.get(run.id).answer == 12


@workflow("workflow_that_asks")
def asks_between(steps: Steps) -> list[Any]:
    before = steps.step(effect, "before", name="before")
    told = steps.ask("how many?")
    return [before, told, steps.step(effect, "after", name="after")]


@workflow("workflow_that_asks_live")
async def asks_between_live(steps: AsyncSteps) -> list[Any]:
    before = await steps.step(aeffect, "before", name="before")
    told = await steps.ask("how many?")
    return [before, told, await steps.step(aeffect, "after", name="after")]


@pytest.mark.parametrize("flow", ["workflow_that_asks", "workflow_that_asks_live"])
@pytest.mark.parametrize("dies", ["while it is asked", "with the answer", "in both"])
def test_a_death_while_a_question_is_open_repeats_nothing(
    client: Client, settings: Settings, flow: str, dies: str
) -> None:
    run = client.submit(flow, "go")
    with driving(settings) as asking:
        assert play_one(asking)
        if dies != "with the answer":
            assert play_one(asking, before_its_commit=True)  # it asks, and the question is lost
            let_time_pass(asking)
        assert play_one(asking) and not play_one(asking)
        assert client.get(run.id).status is RunStatus.INTERRUPTED
    # The process that asked is gone, with the coroutine that stood still in it.
    [question] = client.inbox().waiting
    assert DONE == {"before": 1} and question.question == "how many?"
    client.resume(run.id, 7)
    with driving(settings) as other:
        if dies != "while it is asked":
            assert play_one(other, before_its_commit=True)
            let_time_pass(other)
        done = play(other, run)
    assert done.answer == ["before is done", 7, "after is done"], done.error
    assert DONE == {"before": 1, "after": 1}
    assert [name for name, _ in journal(client, run)] == ["before", "ask", "after"]


def waits_inside(context: RoundContext) -> None:
    context.sleep("1h")


@workflow("workflow_step_that_waits")
def step_that_waits(steps: Steps, idempotent: bool) -> None:
    steps.step(waits_inside, idempotent=idempotent)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_step_does_not_wait(client: Client, driver: Driver, idempotent: bool) -> None:
    run = client.submit("workflow_step_that_waits", "go", {"idempotent": idempotent})
    failed = play(driver, run)
    assert failed.error is not None and "step 'waits_inside' waits" in failed.error


@workflow("workflow_typed_question")
def typed_question(steps: Steps) -> int:
    count = steps.ask("how many?", expects=int)
    return int(count + 1)


def test_an_answer_that_is_not_of_the_type_is_asked_for_again(
    client: Client, driver: Driver
) -> None:
    run = client.submit("workflow_typed_question", "go")
    for answer, asked in (
        (None, "how many?"),
        ("three", "how many? (the last answer does not fit"),
    ):
        if answer is not None:
            client.resume(run.id, answer)
        waiting = play(driver, run)
        assert waiting.status is RunStatus.INTERRUPTED
        [question] = client.inbox().waiting
        assert question.question.startswith(asked)
        assert question.data["expects"] == {"type": "integer"}
    client.resume(run.id, 2)
    assert play(driver, run).answer == 3


def spends(number: int, context: RoundContext) -> int:
    for _ in range(number):
        context.spend(tokens=1)
    return number


@workflow("workflow_spending", budgets={"tokens": 10_000})
def spending(steps: Steps) -> Any:
    return steps.gather(Step(spends, 100) for _ in range(8))


def test_what_siblings_spend_is_added_up(client: Client, driver: Driver) -> None:
    run = client.submit("workflow_spending", "go")
    assert play(driver, run).answer == [100] * 8
    assert client.get(run.id).details["spent"]["tokens"] == 800


def a_list() -> list[str]:
    return ["stored"]


def done() -> str:
    return "done"


@workflow("workflow_one_item")
def one_item(steps: Steps) -> list[str]:
    return [steps.step(done, idempotent=True)]


@workflow("workflow_changes_results")
async def changes_results(steps: AsyncSteps, goal: str) -> list[list[Any]]:
    """Ordinary code: it extends the lists that its steps return."""
    own: list[Any] = await steps.step(a_list, idempotent=True)
    own.append("mine")
    both: list[list[Any]] = await asyncio.gather(
        steps.step(a_list, name="left", idempotent=True),
        steps.step(a_list, name="right", idempotent=True),
    )
    both[0].append("mine")
    child: list[Any] = await steps.child("workflow_one_item", "go")
    child[0] = {1, 2}  # no JSON
    await steps.step(done, idempotent=True)
    await steps.step(done, idempotent=True)
    return [own, *both, sorted(child[0])]


@workflow("workflow_changes_results_plainly")
def changes_results_plainly(steps: Steps, goal: str) -> list[list[Any]]:
    own: list[Any] = steps.step(a_list, idempotent=True)
    own.append("mine")
    for _ in range(3):
        steps.step(done, idempotent=True)
    return [own]


@pytest.mark.parametrize("deadly", [None, *range(7)])
@pytest.mark.parametrize("flow", ["workflow_changes_results", "workflow_changes_results_plainly"])
def test_the_journal_does_not_change_with_what_the_function_does_to_a_result(
    client: Client, driver: Driver, flow: str, deadly: int | None
) -> None:
    run = client.submit(flow, "go")
    played = 0

    def rests() -> bool:
        nonlocal played
        while play_one(driver, before_its_commit=played == deadly):
            played += 1
        if played == deadly:
            played += 1  # that one died
        let_time_pass(driver)
        return client.get(run.id).status.ended

    until(rests, "the end of the run")
    own = ["stored", "mine"]
    expected = [own, own, ["stored"], [1, 2]] if flow == "workflow_changes_results" else [own]
    assert client.get(run.id).answer == expected, client.get(run.id).error
    assert "mine" not in str(journal(client, run))
