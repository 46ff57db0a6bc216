"""The goals that ``map`` makes from its items, and the errors of children."""

from __future__ import annotations

import pytest

from perdure import InvalidChild
from perdure.flows.rounds.children import ChildFailed, Ended, goal_of


def test_the_item_stands_for_its_placeholder() -> None:
    assert goal_of("look at {item}, {item}", 3, "run r, step 0") == "look at 3, 3"


def test_a_doubled_brace_is_a_brace_and_other_braces_stay() -> None:
    assert goal_of('{{item}} {"a": 1} {}', "x", "run r, step 0") == '{item} {"a": 1} {}'


def test_what_an_item_contains_is_no_placeholder() -> None:
    assert goal_of("{item}", "{thing}", "run r, step 0") == "{thing}"


def test_an_unknown_placeholder_is_refused_with_the_one_that_exists() -> None:
    with pytest.raises(InvalidChild) as refused:
        goal_of("look at {thing}", "x", "run r, step 0")
    assert str(refused.value) == (
        "run r, step 0: goal='look at {thing}' of map has the placeholder {thing}; the only one is "
        "{item}, which stands for the item. For the text {thing}, write {{thing}}"
    )


def test_a_failure_below_a_failed_child_has_its_cause_once_and_all_commands_in_order() -> None:
    def failed(run_id: str, error: str) -> str:
        return str(ChildFailed.of(Ended(0, run_id, "f", "errored", error=error)))

    below = failed("c", "run c, step 4, node N: no such customer")
    above = failed("b", f"run b, step 2, node M: {below}")
    assert above == (
        "child run b (flow f) errored at step 2, node M: child run c (flow f) errored at step 4, "
        "node N: no such customer. Continue the child first: perdure retry c, then perdure retry b"
    )
