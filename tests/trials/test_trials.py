"""Trials at sizes of some seconds, so that no trial stops working unnoticed."""

from __future__ import annotations

import pytest

from tests.trials.catalog import TRIALS

#: A tree of 1,111 runs has no smaller size, and its seconds are measured on a quiet machine.
TIMED = {"stops", "stops_over_rabbit"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(set(TRIALS) - TIMED))
def test_a_trial_keeps_its_promise_at_a_small_size(name: str) -> None:
    found = TRIALS[name].play(TRIALS[name].small)
    assert found.kept, found.text
