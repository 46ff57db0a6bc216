"""CI plays a share of slow tests with many cases, more of changed code, and in turns all."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.shares import (
    FEW,
    is_played,
    pytest_collection_modifyitems,
    share_of,
    touched_files,
)


class Case:
    def __init__(self, nodeid: str, slow: bool = True, long: bool = False) -> None:
        self.nodeid, self.marks = nodeid, {"slow": slow, "long": long}

    def get_closest_marker(self, name: str) -> Any:
        return name if self.marks[name] else None


def left(share: str | None, cases: Sequence[Case]) -> list[str]:
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    options = {"--share": share, "--touched": None}
    config: Any = SimpleNamespace(getoption=options.get, hook=hook)
    items: Any = list(cases)
    pytest_collection_modifyitems(config, items)
    return [each.nodeid for each in items]


MANY = [Case(f"a.py::test[{number}]") for number in range(2 * FEW + 1)]
OTHERS = [
    *(Case(f"a.py::test_that_is_quick[{number}]", False) for number in range(4 * FEW)),
    Case("tests/e2e/golden/test_imports.py::test_alone"),
]


def test_halves_are_all_and_nothing_is_in_both() -> None:
    first, second = set(left("0/2", MANY)), set(left("1/2", MANY))
    assert first | second == {case.nodeid for case in MANY} and not first & second
    assert abs(len(first) - len(second)) == 1 and set(left("2/2", MANY)) == first
    assert set(left(None, MANY)) == first | second


def test_quick_tests_and_those_of_what_users_see_are_always_played() -> None:
    others = {case.nodeid for case in OTHERS}
    for share in ("0/2", "1/2"):
        assert others <= set(left(share, [*MANY, *OTHERS]))


def test_each_second_slow_test_of_few_cases_is_played() -> None:
    alone = [Case(f"{name}.py::test") for name in "abcdefgh"]
    turns = [left(f"{number}/8", alone) for number in range(2)]
    assert [len(turn) for turn in turns] == [4, 4]
    assert {*turns[0], *turns[1]} == {case.nodeid for case in alone}
    assert left("0/1", alone) == [case.nodeid for case in alone]


def test_long_tests_are_one_table_of_which_twice_as_many_are_played() -> None:
    long = [Case(f"{name}.py::test", long=True) for name in "abcdefgh"]
    turns = [left(f"{number}/8", long) for number in range(4)]
    assert [len(turn) for turn in turns] == [2, 2, 2, 2]
    assert {name for turn in turns for name in turn} == {case.nodeid for case in long}


def test_files_with_long_and_slow_tests_begin_first() -> None:
    cases = [
        Case("a.py::quick", slow=False), Case("b.py::slow"), Case("c.py::quick", slow=False),
        Case("c.py::long", long=True), Case("b.py::quick", slow=False),
    ]  # fmt: skip
    expected = ["c.py::quick", "c.py::long", "b.py::slow", "b.py::quick", "a.py::quick"]
    assert left(None, cases) == expected


@pytest.mark.parametrize("text", ["", "2", "1/0", "x/2", "-1/2"])
def test_a_share_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError):
        share_of(text)


def played(cases: int, first: int, each: int, touched: set[str] | None) -> set[int]:
    return {place for place in range(cases) if is_played(place, first, each, touched, "a.py")}


def test_a_touched_test_plays_four_times_as_many_cases_and_the_others_half_as_many() -> None:
    for first in range(8):
        plain = played(32, first, 8, None)
        assert len(plain) == 4 and plain <= played(32, first, 8, {"a.py"})
        assert len(played(32, first, 8, {"a.py"})) == 16
        assert len(played(32, first, 8, {"b.py"})) == 2
    everywhere = [played(32, first, 8, {"b.py"}) for first in range(16)]
    assert set.union(*everywhere) == set(range(32)), "some case is never played"


#: Files with slow tests, of which one is about the dashboard.
SLOW = {"tests/run/web/test_login.py", "tests/store/test_claim.py", "tests/unit/test_ids.py"}


def test_a_test_is_touched_by_itself_by_a_package_that_it_imports_and_by_a_helper() -> None:
    login = {"tests/run/web/test_login.py"}
    assert touched_files(SLOW, login) == login
    assert touched_files(SLOW, {"worker/web/dashboard/fork.py"}) == login
    assert touched_files(SLOW, {"tests/support/in_process_server.py"}) == login
    assert touched_files(SLOW, {"README.md"}) == set()


def test_a_change_of_nearly_everything_says_nothing_about_which_cases_matter() -> None:
    assert touched_files(SLOW, SLOW) is None
