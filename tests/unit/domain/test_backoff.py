"""retries: waits double up to a bound, and half of each is left to chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.worker.domain.failed_attempt import backoff

JITTER = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (100, 60.0)]
)
def test_waits_double_up_to_the_longest(failures: int, seconds: float) -> None:
    assert backoff(failures, 1.0, 60.0, jitter=0.0) == seconds / 2
    assert backoff(failures, 1.0, 60.0, jitter=1.0) == seconds


@given(
    failures=st.integers(1, 10**6),
    first=st.floats(0, 100),
    longest=st.floats(0, 1000),
    jitter=JITTER,
)
def test_no_wait_is_longer_than_the_longest_or_shorter_than_half(
    failures: int, first: float, longest: float, jitter: float
) -> None:
    wait = backoff(failures, first, longest, jitter)
    full = min(longest, first * 2.0 ** min(failures - 1, 60))
    assert full / 2 <= wait <= full <= longest


@given(failures=st.integers(1, 50), jitter=JITTER)
def test_a_later_wait_is_never_shorter_at_the_same_chance(failures: int, jitter: float) -> None:
    assert backoff(failures + 1, 1.0, 60.0, jitter) >= backoff(failures, 1.0, 60.0, jitter)


@given(a=JITTER, b=JITTER)
def test_chance_spreads_runs_that_failed_together(a: float, b: float) -> None:
    if abs(a - b) > 1e-6:
        assert backoff(3, 1.0, 60.0, a) != backoff(3, 1.0, 60.0, b)


def test_more_failures_than_a_float_can_double_do_not_overflow() -> None:
    assert backoff(10**9, 1.0, 60.0, 0.5) == 45.0


def test_a_first_wait_of_nothing_waits_for_nothing() -> None:
    assert backoff(5, 0.0, 60.0, 0.9) == 0.0
