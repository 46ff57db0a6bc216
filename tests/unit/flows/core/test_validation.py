"""Errors for a definition that contradicts itself: the expected value, the given one, the nearest
known name.
"""

from __future__ import annotations

import pytest

from perdure import CircularFlow, Finish, InvalidFlow, Node
from perdure.flows.core.names import Names, suggest
from perdure.flows.core.validation import check_count, check_limit, is_seconds
from perdure.flows.rounds.flow import title


def only(given: object, context: object) -> Finish:
    return Finish(1)


class Ring(CircularFlow):
    topology = (Node("A", only),)


def test_the_nearest_name_is_told_and_all_of_them() -> None:
    assert suggest("ab", ["abc", "abd", "x"]) == "did you mean 'abd'? Known: abc, abd, x"
    assert suggest("zzz", ["b", "a"]) == "Known: a, b"
    assert suggest("zzz", []) == "Known: none"


def test_a_limit_that_is_no_count_is_told_with_what_was_expected() -> None:
    assert check_limit(None, "flow x") is None and check_limit(1, "flow x") == 1
    with pytest.raises(InvalidFlow) as refused:
        check_limit(0, "flow x: max_rounds")
    assert (
        str(refused.value)
        == "flow x: max_rounds is 0; expected a whole number of at least 1, or None for no limit"
    )
    with pytest.raises(InvalidFlow) as refused:
        check_count(True, "flow x: y")
    assert str(refused.value) == "flow x: y is True; expected a whole number of at least 1"


@pytest.mark.parametrize("value", [1, 0.5, 1e-9])
def test_seconds_are_numbers_above_zero(value: float) -> None:
    assert is_seconds(value)


@pytest.mark.parametrize("value", [0, -1, True, float("inf"), float("nan"), "1", None])
def test_nothing_else_is_seconds(value: object) -> None:
    assert not is_seconds(value)


def test_a_flow_is_named_by_its_name_or_else_by_its_class() -> None:
    ring = Ring()
    assert title(ring) == "flow 'Ring'"
    ring.name = "round"
    assert title(ring) == "flow 'round'"


@pytest.mark.parametrize(
    ("setting", "what"),
    [("max_rounds", "a whole number"), ("lease_seconds", "a number of seconds above 0, or None")],
)
def test_a_wrong_limit_names_its_flow(setting: str, what: str) -> None:
    ring = Ring()
    setattr(ring, setting, -1)
    with pytest.raises(InvalidFlow) as refused:
        ring.check_definition()
    assert str(refused.value).startswith(f"flow 'Ring': {setting} is -1; expected {what}")


def test_a_node_that_is_no_function_is_told_with_what_was_expected() -> None:
    class Wrong(CircularFlow):
        topology = (Node("A", 7),)  # type: ignore[arg-type]

    with pytest.raises(InvalidFlow, match="a function, a BranchingFlow, or the name of a method"):
        Wrong().check_definition()


def test_names_are_kept_once() -> None:
    names: Names[object] = Names("thing")
    assert (
        names.keep("a", only) is only and names.named("a") is only and names.keep("a", only) is only
    )
    assert "a" in names and "b" not in names
    with pytest.raises(InvalidFlow) as refused:
        names.keep("a", title)
    assert (
        str(refused.value)
        == f"two things are named 'a': {__name__}.only and perdure.flows.rounds.flow.title; rename one"
    )
    with pytest.raises(InvalidFlow) as refused:
        names.named("b:c")
    assert str(refused.value).startswith(
        "no thing is named 'b:c' (expected a registered name, never an import path); Known: a"
    )
    names.keep("object", 7)
    with pytest.raises(InvalidFlow) as refused:
        names.keep("object", 8)
    assert str(refused.value) == "two things are named 'object': 7 and 8; rename one"
