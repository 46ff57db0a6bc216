"""Trials at sizes of some seconds, so that no trial stops working unnoticed."""

from __future__ import annotations

import pytest

from tests.trials.catalog import TRIALS


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(TRIALS))
def test_a_trial_keeps_its_promise_at_a_small_size(name: str) -> None:
    found = TRIALS[name].play(TRIALS[name].small)
    assert found.kept, found.text
