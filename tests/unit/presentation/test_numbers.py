"""Numbers in words: each number that a run can hold is written, however large or small."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.worker.presentation.text import MOST_SHARE, figure, percent, progress_of, share
from perdure.worker.presentation.usage import amount, budget, used_in_all

NUMBERS = st.one_of(
    st.integers(-(10**500), 10**500), st.floats(allow_nan=False, allow_infinity=False)
)


@given(NUMBERS, NUMBERS)
def test_each_number_that_json_has_is_told_in_few_characters(part: float, whole: float) -> None:
    assert len(figure(part)) < 20
    assert 0 <= share(part, whole) <= MOST_SHARE
    assert percent(part, whole).endswith(" %")
    assert len(progress_of({"done": part, "total": whole})) < 45


@given(
    st.one_of(st.integers(0, 10**500), st.floats(0, allow_nan=False, allow_infinity=False)),
    st.floats(5e-324, 1e300),
)
def test_each_budget_is_told(spent: float, limit: float) -> None:
    for name in ("tokens", "money", "seconds", "commands.buy"):
        assert len(budget(name, limit, spent)) < 120
        assert amount(name, spent)
    assert (
        used_in_all({"tokens": spent, "requests": spent, "money": spent, "commands.buy": spent})
        is not None
    )


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (82, 100, "82 %"),
        (1, 5e-324, "over 100,000 %"),
        (10**400, 3, "over 100,000 %"),
        (3, 10**400, "0 %"),
        (1, 0, "0 %"),
    ],
)
def test_a_share_is_bounded(part: float, whole: float, expected: str) -> None:
    assert percent(part, whole) == expected


def test_progress_without_a_total_tells_no_figure() -> None:
    assert (
        progress_of({"done": 3, "total": None})
        == progress_of("nonsense")
        == progress_of({"done": 1, "total": 0})
        == ""
    )
    assert progress_of({"done": 10**400, "total": 1}) == "1e+400 of 1"
