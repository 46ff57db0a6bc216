"""Workflows: a function whose steps are rounds, played in memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from perdure import (
    Advance,
    End,
    FatalError,
    InvalidFlow,
    InvalidInput,
    RetryableError,
    RoundStopped,
    make,
)
from perdure.flows.rounds import registry
from perdure.flows.workflows import (
    AsyncSteps,
    Diverged,
    Step,
    StepFailed,
    Steps,
    WorkflowFlow,
    workflow,
)
from tests.support.flow_player import Played, play_through
from tests.support.flow_registry import own_registry

#: The finished steps of a test.
DONE: list[str] = []


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch)
    DONE.clear()


def keep(function: Callable[..., Any], **settings: Any) -> None:
    """Register a function in place of an earlier one."""
    registry._definitions.pop("tried", None)
    workflow("tried", **settings)(function)


def did(what: str, result: Any = None) -> Any:
    DONE.append(what)
    return what if result is None else result


def fails(what: str) -> None:
    DONE.append(what)
    raise ValueError(f"no {what}")


async def adid(what: str) -> str:
    DONE.append(what)
    await asyncio.sleep(0)
    return what


def played(function: Callable[..., Any], *answers: Any, **inputs: Any) -> Played:
    """Register the function, and play a run of it to its end."""
    keep(function)
    return play_through(lambda: make("tried"), "the goal", inputs, answers)


def answer_of(function: Callable[..., Any], *answers: Any, **inputs: Any) -> Any:
    end = played(function, *answers, **inputs).end
    assert end is not None
    return end.answer


# Steps


def test_each_step_is_a_round_and_is_called_once() -> None:
    def order(steps: Steps, item: str) -> list[str]:
        return [steps.step(did, f"charge {item}"), steps.step(did, f"ship {item}", name="ship")]

    run = played(order, item="book")
    assert DONE == ["charge book", "ship book"]
    assert run.end is not None and run.end.answer == DONE
    assert [turn.command.name for turn in run.turns if turn.command] == ["did", "ship"]
    assert [type(outcome) for _, outcome in run.rounds] == [Advance, End]


def test_a_coroutine_function_does_the_same() -> None:
    async def order(steps: AsyncSteps, item: str) -> list[str]:
        return [await steps.step(adid, f"charge {item}"), await steps.step(did, f"ship {item}")]

    assert answer_of(order, item="book") == ["charge book", "ship book"] == DONE


def test_steps_of_a_name_are_numbered() -> None:
    def count(steps: Steps) -> None:
        for number in range(3):
            steps.step(did, str(number), name="one")

    names = [turn.command.name for turn in played(count).turns if turn.command]
    assert names == ["one", "one.2", "one.3"]


@pytest.mark.parametrize("name", ["agent__x__model.request", "agent__x__toolset__y.call_tool"])
def test_a_step_may_have_the_name_of_a_library_s_operation(name: str) -> None:
    def run_agent(steps: Steps) -> list[str]:
        one = steps.step(did, "one", name=name)
        return [one, *steps.gather([Step(did, "two", name=name), Step(did, "three", name=name)])]

    run = played(run_agent)
    assert run.end is not None and run.end.answer == ["one", "two", "three"]
    names = [turn.command.name for turn in run.turns if turn.command]
    assert names == [name, f"{name}.2", f"{name}.3"]


def test_a_step_goes_to_the_node_of_its_role() -> None:
    def both(steps: Steps) -> None:
        steps.step(did, "a")
        steps.step(did, "b", role="controller")
        steps.step(did, "c")

    assert played(both).nodes == ["Executor", "Controller", "Executor"]


def test_siblings_are_one_round_in_order() -> None:
    together = threading.Barrier(3, timeout=10)

    def meet(what: str) -> str:
        together.wait()
        return what

    def fan(steps: Steps) -> list[str]:
        return steps.gather([Step(meet, each) for each in "abc"])

    async def afan(steps: AsyncSteps) -> list[str]:
        return await asyncio.gather(*(steps.step(meet, each) for each in "abc"))

    for function in (fan, afan):
        run = played(function)
        assert run.end is not None and run.end.answer == ["a", "b", "c"]
        assert len(run.rounds) == 1


def test_many_siblings_are_carried_out_sixteen_at_a_time() -> None:
    def fan(steps: Steps) -> list[str]:
        return steps.gather(Step(did, str(number)) for number in range(40))

    run = played(fan)
    assert run.end is not None and run.end.answer == [str(number) for number in range(40)]
    assert len(run.rounds) == 3


def test_a_step_gets_the_context_of_its_round() -> None:
    def key(context: Any) -> str:
        return str(context.idempotency_key)

    def keys(steps: Steps) -> list[str]:
        return [steps.step(key), steps.step(key)]

    first, second = answer_of(keys)
    assert first.startswith("run:0:") and second.startswith("run:1:") and first != second


def test_a_long_result_is_kept_as_an_artifact() -> None:
    def long(steps: Steps) -> int:
        return len(steps.step(lambda: "x" * 70_000, name="long"))

    keep(long)
    outcome = make("tried").play("Executor", context())
    assert isinstance(outcome, End) and outcome.answer == 70_000
    [turn] = outcome.turns
    assert turn.observation["artifact"] == "long-0" and "result" not in turn.observation
    assert outcome.artifacts == {"long-0": '"' + "x" * 70_000 + '"'}
    again = context(history=[turn], artifact=outcome.artifacts.__getitem__)
    replayed = make("tried").play("Executor", again)
    assert isinstance(replayed, End) and replayed.answer == 70_000 and not replayed.turns


def context(history: Any = (), **fields: Any) -> Any:
    from perdure import History, RoundContext

    turns = list(history)
    return RoundContext(
        "the goal", history=History(len(turns), turns, lambda start, stop: []), **fields
    )


# Errors


def test_a_failed_step_can_be_caught_and_made_up_for() -> None:
    def saga(steps: Steps) -> str:
        steps.step(did, "charge")
        try:
            steps.step(fails, "ship")
        except StepFailed as error:
            steps.step(did, "refund")
            return f"{error.step}, {error.error}: {error.reason}"
        return "shipped"

    assert answer_of(saga) == "fails, ValueError: no ship"
    assert DONE == ["charge", "ship", "refund"]


def test_an_uncaught_failure_ends_the_run_and_is_not_committed() -> None:
    def order(steps: Steps) -> None:
        steps.step(fails, "charge")

    keep(order)
    with pytest.raises(FatalError, match=r"run, step 0: step fails failed: ValueError: no charge"):
        make("tried").play("Executor", context())


def test_the_error_of_a_step_has_the_line_that_raised_it_and_says_what_to_check() -> None:
    def order(steps: Steps, once: bool) -> None:
        steps.step(fails, "charge", idempotent=once)

    keep(order)
    for once in (False, True):
        with pytest.raises(FatalError) as failed:
            make("tried").play("Executor", context(inputs={"once": once}))
        causes = [failed.value.__cause__, failed.value.__cause__.__cause__]  # type: ignore[union-attr]
        assert [type(each) for each in causes] == [StepFailed, ValueError]
        assert ("Not idempotent: fails" in str(failed.value)) is not once


def test_the_steps_of_a_workflow_are_not_used_within_a_step() -> None:
    uses: list[Callable[[Steps], Any]] = [
        lambda steps: steps.step(did, "inner"),
        lambda steps: steps.ask("really?"),
        lambda steps: steps.now(),
    ]

    def order(steps: Steps) -> None:
        steps.step(lambda: uses[0](steps), name="outer")

    keep(order)
    while uses:
        with pytest.raises(FatalError, match="within a step"):
            make("tried").play("Executor", context())
        del uses[0]
    assert DONE == []


def test_siblings_are_given_as_steps() -> None:
    def order(steps: Steps) -> None:
        steps.gather([(did, "charge")])  # type: ignore[list-item]

    keep(order)
    with pytest.raises(InvalidFlow, match=r"expected Step\(function, argument, ...\)"):
        make("tried").play("Executor", context())


def test_what_is_done_is_committed_before_an_error_of_the_function() -> None:
    def order(steps: Steps) -> None:
        steps.step(did, "charge")
        raise KeyError("typo")

    keep(order)
    outcome = make("tried").play("Executor", context())
    assert isinstance(outcome, Advance) and len(outcome.turns) == 1
    with pytest.raises(FatalError, match="the workflow raised KeyError: 'typo'"):
        make("tried").play("Executor", context(history=outcome.turns, step=1))
    assert DONE == ["charge"]


@pytest.mark.parametrize(
    ("options", "may", "retried"),
    [
        ({"idempotent": True}, True, True),
        ({"idempotent": True}, False, False),
        ({}, True, False),
        ({"retry": {"on": ["ValueError"]}}, True, True),
        ({"retry": {"on": ["KeyError"]}}, True, False),
    ],
)
def test_an_idempotent_step_or_a_named_error_is_tried_again(
    options: dict[str, Any], may: bool, retried: bool
) -> None:
    def order(steps: Steps) -> str:
        try:
            steps.step(fails, "charge", **options)
        except StepFailed:
            return "given up"
        return "done"

    keep(order)
    plan = {"retry": options["retry"]} if "retry" in options else None
    round_ = context(committed={"_next": plan}, may_retry=lambda error, own=None: may)
    if retried:
        with pytest.raises(ValueError, match="no charge"):
            make("tried").play("Executor", round_)
    else:
        outcome = make("tried").play("Executor", round_)
        assert isinstance(outcome, End) and outcome.answer == "given up"


def test_a_retryable_error_is_retried_while_attempts_are_left() -> None:
    def busy() -> None:
        raise RetryableError("busy")

    def order(steps: Steps) -> None:
        steps.step(busy)

    keep(order)
    with pytest.raises(RetryableError):
        make("tried").play("Executor", context(may_retry=lambda error, own=None: True))
    with pytest.raises(FatalError, match="step busy failed: RetryableError: busy"):
        make("tried").play("Executor", context())


def test_the_next_step_s_time_limit_and_retry_policy_are_known_before_its_round() -> None:
    def order(steps: Steps) -> None:
        steps.step(did, "a")
        steps.step(did, "b", timeout="2m", idempotent=True, retry={"max_attempts": 7})
        steps.step(did, "c")

    run = played(order)
    flow = make("tried")
    [first, second, _] = [outcome for _, outcome in run.rounds]
    assert isinstance(first, Advance) and isinstance(second, Advance)
    limit = flow.time_limit("Executor", first.values)
    assert limit is not None and 120 < limit < 130  # The step itself is cancelled before.
    retry = flow.retry_of("Executor", first.values)
    assert retry is not None and retry.max_attempts == 7
    assert flow.time_limit("Executor", second.values) is None
    assert flow.retry_of("Executor", second.values) is None


# Questions


def test_a_question_is_asked_and_answered() -> None:
    def order(steps: Steps) -> Any:
        steps.step(did, "load")
        if steps.ask("Pay?", {"total": 3}) == "yes":
            return steps.step(did, "pay")
        return "refused"

    assert answer_of(order, "yes") == "pay"
    assert answer_of(order, "no") == "refused"


def test_a_step_may_need_approval() -> None:
    def order(steps: Steps) -> Any:
        try:
            return steps.step(did, "pay", approval="always")
        except StepFailed as error:
            return error.reason

    assert answer_of(order, "approve") == "pay"
    DONE.clear()
    assert answer_of(order, {"refuse": "too much"}) == "too much" and DONE == []
    run = played(order, {"edit": {"what": "steal"}}, "approve")
    assert len(run.rounds) == 3, "the arguments of a step cannot be changed, so it asks again"


# Determinism


def test_time_and_chance_are_the_same_whenever_it_is_run_again() -> None:
    def chance(steps: Steps) -> list[Any]:
        told = [steps.random(), str(steps.uuid()), steps.now().isoformat(), steps.uuid().hex]
        DONE.append(str(told))
        steps.step(did, "a")
        steps.step(did, "b")
        return told

    told = answer_of(chance)
    assert [each for each in DONE if each.startswith("[")] == [str(told)] * 2
    assert 0 <= told[0] < 1 and told[1] != told[3]
    assert datetime.fromisoformat(told[2]).tzinfo is not None


def test_a_function_that_changed_is_told_with_both_versions() -> None:
    def before(steps: Steps) -> None:
        steps.step(did, "a", name="load")
        steps.step(did, "b", name="check")
        steps.step(did, "c", name="pay")

    def after(steps: Steps) -> None:
        steps.step(did, "a", name="load")
        steps.step(did, "b", name="refund")

    async def aafter(steps: AsyncSteps) -> None:
        await steps.step(did, "a", name="load")
        await steps.step(did, "b", name="refund")

    journal = played(before).turns[:2]
    DONE.clear()
    for changed in (after, aafter):
        keep(changed)
        with pytest.raises(
            Diverged, match=r"Its journal: load, check\. The function now: load, refund\."
        ):
            make("tried").play("Executor", context(history=journal))
    assert DONE == [], "nothing new was carried out"


def test_a_function_that_ends_too_early_has_diverged() -> None:
    def before(steps: Steps) -> None:
        steps.step(did, "a", name="load")
        steps.step(did, "b", name="check")

    def after(steps: Steps) -> None:
        steps.step(did, "a", name="load")

    async def aafter(steps: AsyncSteps) -> None:
        await steps.step(did, "a", name="load")

    journal = played(before).turns
    for changed in (after, aafter):
        keep(changed)
        with pytest.raises(Diverged, match=r"The function now: load, its end\."):
            make("tried").play("Executor", context(history=journal))


def test_an_entry_of_another_kind_has_diverged() -> None:
    def before(steps: Steps) -> None:
        steps.step(did, "a", name="one")

    def after(steps: Steps) -> None:
        steps.ask("one?", name="one")

    journal = played(before).turns
    keep(after)
    with pytest.raises(Diverged, match=r"now: one, one as ask, not step\."):
        make("tried").play("Executor", context(history=journal))


def test_a_change_may_keep_the_old_way_for_runs_that_came_past_it() -> None:
    def before(steps: Steps) -> list[str]:
        return [steps.step(did, "a"), steps.step(did, "b")]

    def after(steps: Steps) -> list[str]:
        first = steps.step(did, "a")
        if steps.patched("check-first"):
            return [first, steps.step(did, "check", name="check"), steps.step(did, "b")]
        return [first, steps.step(did, "b")]

    journal = played(before).turns
    assert answer_of(after) == ["a", "check", "b"]
    assert answer_of(after) == ["a", "check", "b"], "a run that has begun with the new way"
    outcome = make("tried").play("Executor", context(history=journal))
    assert isinstance(outcome, End) and outcome.answer == ["a", "b"]


def test_a_race_is_won_by_the_same_step_whenever_it_is_run_again() -> None:
    go = threading.Event()

    def slow() -> str:
        go.wait(10)
        return "slow"

    def fast() -> str:
        go.set()
        return "fast"

    async def race(steps: AsyncSteps) -> list[str]:
        tasks = [asyncio.ensure_future(steps.step(each)) for each in (slow, fast)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*tasks)
        first = [task.result() for task in done]
        return [*first, await steps.step(did, "end")]

    winners = answer_of(race)
    assert winners[-1] == "end"
    assert winners[0] == "slow", "in the order of their entries"


# Limits of a function


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: asyncio.sleep(1), r"Use `await steps\.sleep"),
        (lambda: asyncio.to_thread(print), "belongs|into a step"),
        (lambda: asyncio.get_running_loop().create_future(), "neither a step nor a wait"),
    ],
)
def test_a_coroutine_cannot_wait_for_what_is_not_kept(bad: Callable[[], Any], words: str) -> None:
    async def naps(steps: AsyncSteps) -> None:
        await bad()

    keep(naps)
    with pytest.raises(FatalError, match=words):
        make("tried").play("Executor", context())


def test_the_end_of_a_round_cannot_be_caught() -> None:
    def catches(steps: Steps) -> str:
        steps.step(did, "a")
        try:
            steps.step(did, "b")
        except BaseException:
            return "caught"
        return "not"

    keep(catches)
    with pytest.raises(FatalError, match="caught the end of its round"):
        make("tried").play("Executor", context())


def test_the_end_of_a_round_cannot_be_caught_by_a_coroutine() -> None:
    async def catches(steps: AsyncSteps) -> str:
        await steps.step(did, "a")
        try:
            await steps.ask("b?")
        except BaseException:
            return "caught"
        return "not"

    keep(catches)
    [turn] = make("tried").play("Executor", context()).turns
    with pytest.raises(FatalError, match="caught the end of its round"):
        make("tried").play("Executor", context([turn]))


def test_the_end_of_a_round_cannot_be_made_another_error() -> None:
    def catches(steps: Steps) -> None:
        steps.step(did, "a")
        try:
            steps.step(did, "b")
        except BaseException as error:
            raise ValueError("it failed") from error

    keep(catches)
    with pytest.raises(FatalError, match="caught the end of its round"):
        make("tried").play("Executor", context())


def test_a_step_in_finally_is_carried_out_at_the_end_of_the_function_only() -> None:
    def plain(steps: Steps) -> str:
        try:
            return steps.step(did, "a") + steps.step(did, "b")
        finally:
            steps.step(did, "clean")

    async def live(steps: AsyncSteps) -> str:
        try:
            return await steps.step(did, "a") + await steps.step(did, "b")
        finally:
            await steps.step(did, "clean")

    for function in (plain, live):
        DONE.clear()
        assert answer_of(function) == "ab"
        assert DONE == ["a", "b", "clean"]


def test_a_step_is_given_a_function_not_what_it_returned() -> None:
    def order(steps: Steps) -> None:
        steps.step(did("a"))

    keep(order)
    with pytest.raises(InvalidFlow, match=r"expected a function and its arguments"):
        make("tried").play("Executor", context())


def test_the_first_parameter_of_a_workflow_is_its_steps() -> None:
    def order(item: str) -> None: ...

    async def live(steps: Steps) -> None: ...

    for function, expected in ((order, "item: Steps"), (live, "steps: AsyncSteps")):
        with pytest.raises(InvalidFlow, match=f"expected {expected}"):
            keep(function)


@pytest.mark.parametrize("name", ["", "two words", "one.2", "x" * 101])
def test_a_step_needs_a_name(name: str) -> None:
    def order(steps: Steps) -> None:
        steps.step(did, "a", name=name)

    keep(order)
    with pytest.raises((FatalError, InvalidFlow), match="cannot name a step"):
        make("tried").play("Executor", context())


# Its inputs


def test_parameters_are_inputs_with_their_types() -> None:
    def order(steps: Steps, item: str, count: int = 2, *, when: datetime) -> Any:
        return [item, count, when.year]

    assert answer_of(order, item="book", when="2026-11-25T00:00:00Z") == ["book", 2, 2026]
    with pytest.raises(InvalidInput, match="when"):
        make("tried").check_inputs({"item": "book"})
    with pytest.raises(InvalidInput, match="no input named color"):
        make("tried").check_inputs({"item": "book", "when": "2026-11-25", "color": 1})


def test_a_parameter_named_goal_gets_the_goal() -> None:
    def greet(steps: Steps, goal: str) -> str:
        return goal

    assert answer_of(greet) == "the goal" and make("tried").Inputs is None


def test_the_function_stays_what_it_is_and_its_flow_has_its_docstring() -> None:
    @workflow
    def greets(steps: Steps) -> str:
        """Greet somebody.

        And more.
        """
        return "hello"

    flow = make("greets")
    assert isinstance(flow, WorkflowFlow) and flow.description == "Greet somebody."
    assert greets(None) == "hello"


def test_settings_are_those_of_a_flow() -> None:
    keep(lambda steps: None, max_rounds=3, budgets={"tokens": 5})
    assert (make("tried").max_rounds, make("tried").budgets) == (3, {"tokens": 5})
    with pytest.raises(InvalidFlow, match="has no setting 'max_round'"):
        workflow("other", max_round=3)(lambda steps: None)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: None, "has no parameter"),
        (lambda steps, *items: None, "cannot be an input"),
        (lambda steps, **items: None, "cannot be an input"),
    ],
)
def test_a_function_that_cannot_be_a_workflow(function: Any, words: str) -> None:
    with pytest.raises(InvalidFlow, match=words):
        keep(function)


# Easily forgotten cases


@pytest.mark.filterwarnings("ignore:.*was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_step_that_is_never_awaited_is_no_success() -> None:
    async def forgets(steps: AsyncSteps) -> str:
        steps.step(did, "charge")
        return "done"

    async def leaves(steps: AsyncSteps) -> str:
        task = asyncio.ensure_future(steps.step(did, "charge"))
        await asyncio.sleep(0)
        return str(task.done())

    for function in (forgets, leaves):
        keep(function)
        with pytest.raises(FatalError, match="has never awaited did"):
            make("tried").play("Executor", context())
    assert DONE == []


def test_a_task_that_was_cancelled_is_left_out() -> None:
    async def cancels(steps: AsyncSteps) -> str:
        task = asyncio.ensure_future(steps.step(did, "charge"))
        await asyncio.sleep(0)
        task.cancel()
        return "done"

    assert answer_of(cancels) == "done"


def test_an_unknown_option_of_a_step_is_named() -> None:
    def order(steps: Steps) -> None:
        steps.step(did, "charge", idempotant=True)

    keep(order)
    with pytest.raises(InvalidFlow, match=r"did you mean 'idempotent'\?"):
        make("tried").play("Executor", context())


@pytest.mark.parametrize("method", ["child", "map"])
def test_an_unknown_option_of_children_is_named(method: str) -> None:
    def order(steps: Steps) -> None:
        getattr(steps, method)("leaf", [], max_round=3)

    keep(order)
    with pytest.raises(InvalidFlow, match=rf"{method} has no option .* did you mean 'max_rounds'"):
        make("tried").play("Executor", context())


def test_what_is_done_is_committed_before_an_answer_that_is_not_json() -> None:
    def order(steps: Steps) -> Any:
        return iter([steps.step(did, "charge")])

    keep(order)
    outcome = make("tried").play("Executor", context())
    assert isinstance(outcome, Advance) and len(outcome.turns) == 1
    with pytest.raises(FatalError, match="what the workflow returned is a list_iterator"):
        make("tried").play("Executor", context(history=outcome.turns))


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_a_step_that_is_a_coroutine_is_cancelled_with_its_round(is_coroutine: bool) -> None:
    begun = threading.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            DONE.append("cleaned")

    def plain(steps: Steps) -> None:
        steps.step(waits)

    async def live(steps: AsyncSteps) -> None:
        await steps.step(waits)

    keep(live if is_coroutine else plain)
    round_context = context()
    threading.Thread(
        target=lambda: begun.wait(10) and round_context.cancelled.set(), daemon=True
    ).start()
    at = time.monotonic()
    with pytest.raises(RoundStopped):
        make("tried").play("Executor", round_context)
    assert DONE == ["cleaned"] and time.monotonic() - at < 10
