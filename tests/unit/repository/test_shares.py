"""CI plays slow tests with many cases by halves, and in turns all of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.shares import FEW, pytest_collection_modifyitems, share_of


class Case:
    def __init__(self, nodeid: str, slow: bool = True) -> None:
        self.nodeid, self.slow = nodeid, slow

    def get_closest_marker(self, name: str) -> Any:
        return name if self.slow and name == "slow" else None


def left(share: str | None, cases: Sequence[Case]) -> set[str]:
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(getoption=lambda name: share, hook=hook)
    items: Any = list(cases)
    pytest_collection_modifyitems(config, items)
    return {each.nodeid for each in items}


MANY = [Case(f"a.py::test[{number}]") for number in range(2 * FEW + 1)]
OTHERS = [
    *(Case(f"a.py::test_of_few[{number}]") for number in range(FEW)),
    *(Case(f"a.py::test_that_is_quick[{number}]", False) for number in range(4 * FEW)),
    Case("a.py::test_alone"),
]


def test_halves_are_all_and_nothing_is_in_both() -> None:
    first, second = left("0/2", MANY), left("1/2", MANY)
    assert first | second == {case.nodeid for case in MANY} and not first & second
    assert abs(len(first) - len(second)) == 1 and left("2/2", MANY) == first
    assert left(None, MANY) == first | second


def test_only_slow_tests_with_many_cases_are_shared() -> None:
    others = {case.nodeid for case in OTHERS}
    for share in ("0/2", "1/2"):
        assert left(share, [*MANY, *OTHERS]) & others == others


@pytest.mark.parametrize("text", ["", "2", "1/0", "x/2", "-1/2"])
def test_a_share_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError):
        share_of(text)
