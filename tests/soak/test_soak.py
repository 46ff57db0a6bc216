"""A short soak with every kind of fault: no law is broken, and every run completes after it.

No time is judged here.
"""

from __future__ import annotations

import pytest

from tests.soak.figures import figures
from tests.soak.report import text
from tests.soak.soak import Plan, soak
from tests.soak.workload import CHILD_ROUNDS, CHILDREN, FAMILY_ROUNDS

#: The same faults each time; their victims are chance enough. Others: make soak SEED=...
SEED = 8
CHAOS_SECONDS = 90.0
#: As long as it takes on a busy machine; mostly some seconds.
QUIET_SECONDS = 120.0
RUNS = 100


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(420)
def test_nothing_is_lost_or_doubled_whatever_happens() -> None:
    outcome = soak(Plan(SEED, CHAOS_SECONDS, QUIET_SECONDS, RUNS))
    told = text(figures(outcome))
    print(told)
    assert outcome.well, (
        f"make soak SEED={SEED} MINUTES={CHAOS_SECONDS / 60:g} SOAK='--runs {RUNS}' asks for the same faults again\n{told}"
    )
    committed = sum(event.type == "committed" for event in outcome.history.events)
    of_families = outcome.plan.families * (FAMILY_ROUNDS + CHILDREN * CHILD_ROUNDS)
    assert committed == RUNS * outcome.plan.rounds + of_families
