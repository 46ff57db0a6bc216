"""Calls at once: which calls of a reply go together, and how their results come back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import (
    ChildFailed,
    Command,
    ControllerExecutorFlow,
    Ended,
    InvalidFlow,
    Node,
    RoundContext,
    Turn,
    command,
)
from perdure.flows.core.budgets import Budget
from perdure.flows.core.json_values import canonical
from perdure.flows.rings.call_queue import data_of
from perdure.flows.rings.parallel_calls import (
    MOST_CALLED,
    MOST_WRITTEN,
    TOGETHER,
    CallResult,
    budget_left,
    count_together,
    fitted,
    join,
)
from tests.support.example_flows.agents import Player


def calls(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, **({"error": "no"} if name == "bad" else {})} for name in names]


@pytest.mark.parametrize(
    ("waiting", "together"),
    [
        ([], 0),
        (["b", "c"], 2),
        (["b", "finish", "c"], 1),
        (["finish"], 0),
        (["bad"], 0),
        (["bad", "b", "bad"], 2),
        (["twice", "twice", "twice", "b"], 2),
        (["a", "once", "b", "once"], 3),
    ],
)
def test_the_calls_before_finish_and_before_a_limit_go_together(
    waiting: list[str], together: int
) -> None:
    most = {"twice": 2, "once": 1}
    assert count_together(Command("a"), calls(*waiting), lambda name: most.get(name, 9)) == together


def test_a_command_without_a_budget_left_is_carried_out_by_itself() -> None:
    assert count_together(Command("a"), calls("b"), lambda name: 0 if name == "a" else 9) == 0
    assert count_together(Command("b"), calls("a"), lambda name: 0 if name == "a" else 9) == 0


def test_calls_with_long_arguments_do_not_all_go_together() -> None:
    long = {"name": "b", "args": {"text": "x" * (MOST_CALLED // 3)}}
    assert count_together(Command("a"), [long] * 5, lambda name: 9) == 2


def test_a_budget_counts_what_this_round_charges() -> None:
    context = RoundContext("g", budgets={"commands.a": Budget(5, 1)})
    assert (budget_left(context, "a"), budget_left(context, "b")) == (4, float("inf"))
    context.journal.carried_out = "a"
    context.spend(**{"commands.a": 2})
    assert budget_left(context, "a") == 1


@given(
    st.recursive(st.none() | st.text(), lambda inner: st.dictionaries(st.sampled_from(["_observation", "a"]), inner)),
    st.dictionaries(st.text(), st.integers()),
    st.dictionaries(st.text(), st.integers()),
)  # fmt: skip
def test_a_result_comes_back_as_it_was(observation: Any, values: Any, finish: Any) -> None:
    result = CallResult(observation, values, finish)
    assert CallResult.of(result.packed()) == result


def test_an_answer_is_the_observation_alone_if_there_is_no_more() -> None:
    assert CallResult({"a": 1}).packed() == {"a": 1}


def ended(place: int, status: str = "completed", answer: Any = None) -> Ended:
    return Ended(place, f"r{place}", "f", status, answer, None if answer else "why", place + 1)


def test_a_call_with_an_error_has_no_run() -> None:
    joined = join(calls("a", "bad", "b"), [ended(0, answer="x"), ended(1, "errored")], bool)
    assert [turn.observation for turn in joined.turns] == [
        "x",
        {"error": "BadReply: no"},
        {"error": "ChildFailed: child run r1 (flow f) errored: why", "run": "r1"},
    ]
    assert joined.failed == 2


def test_a_failure_that_is_not_observed_is_raised() -> None:
    with pytest.raises(ChildFailed, match="r0"):
        join(calls("a"), [ended(0, "errored")], lambda name: False)


def test_the_first_finish_counts_and_a_later_value_stands() -> None:
    ends = [
        ended(0, answer=CallResult("x", {"v": 1}).packed()),
        ended(1, answer=CallResult(None, {"v": 2}, {"answer": "one"}).packed()),
        ended(2, answer=CallResult(None, {}, {"answer": "two"}).packed()),
    ]
    joined = join(calls("a", "b", "c"), ends, bool)
    assert (joined.values, joined.finish, joined.failed) == ({"v": 2}, {"answer": "one"}, 0)


@given(
    st.lists(st.tuples(st.integers(0, 32_000), st.sampled_from("xü\x00😀")), min_size=1, max_size=64)
)  # fmt: skip
def test_results_fit_into_a_round_and_the_whole_is_kept(kinds: list[tuple[int, str]]) -> None:
    turns = [Turn(Command("a"), letter * length) for length, letter in kinds]
    fitting, artifacts = fitted(turns, [], 3)
    size = sum(len(canonical(turn.observation).encode()) for turn in fitting)
    assert size <= MOST_WRITTEN + 300 * len(turns), "the notes take a little more"
    for turn, cut in zip(turns, fitting, strict=True):
        if cut != turn:
            assert artifacts[cut.observation["artifact"]] == turn.observation


def test_short_results_are_not_cut_beside_long_ones() -> None:
    turns = [Turn(Command("a"), "x" * length) for length in (10, 200_000, 20_000)]
    fitting, artifacts = fitted(turns, [], 3)
    assert (fitting[0], fitting[2], list(artifacts)) == (turns[0], turns[2], ["3-2-a"])
    assert len(fitting[1].observation["beginning"]) > 150_000


def test_results_leave_room_for_the_calls_that_wait() -> None:
    turns = [Turn(Command("a"), "x" * 60_000)] * 2
    waiting = [data_of(Command("b", {"text": "y" * 150_000}))]
    assert fitted(turns, [], 3)[1] == {}
    assert len(fitted(turns, waiting, 3)[1]) == 2


@command(timeout=3, retry={"max_attempts": 2})
def work() -> None:
    """Work."""


def test_limits_of_a_command_are_not_those_of_the_round_that_waits_for_its_calls() -> None:
    flow = ControllerExecutorFlow(controller=Player(), commands=[work], parallel_calls=2)
    alone, together = {"command": "work"}, {"command": "work", TOGETHER: 1}
    assert (flow.time_limit("Executor", alone), flow.time_limit("Executor", together)) == (3, None)
    assert flow.retry_of("Executor", alone) != flow.retry_of("Executor", together)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"parallel_calls": 0}, "parallel_calls is 0; expected a whole number of at least 1"),
        ({"parallel_calls": True}, "parallel_calls is True"),
        (
            {
                "parallel_calls": 2,
                "topology": (*ControllerExecutorFlow.topology, Node("Redact", lambda state, context: {})),
            },
            "parallel_calls is 2, but node Redact follows the Executor",
        ),
    ],
)  # fmt: skip
def test_a_definition_that_cannot_be_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidFlow, match=told):
        ControllerExecutorFlow(controller=Player(), commands=[work], **settings)
