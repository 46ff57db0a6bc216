"""Crash again during the recovery: a death at any point, and another at any later one."""

from __future__ import annotations

import pytest

from tests.crash.points.faults import Fault
from tests.crash.points.figures import counted, shown
from tests.crash.points.plans import Plan, deaths, worlds
from tests.crash.points.plot import Plot
from tests.crash.points.plots import EVERY_ACT
from tests.crash.points.stage import Stage
from tests.crash.points.story import Story

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.mark.long
@EVERY_ACT
def test_a_process_may_die_and_another_anywhere_after_that(stage: Stage, plot: Plot) -> None:
    """All pairs of deaths that leave different worlds behind: each pair of such worlds is played
    once.
    """
    alike = {group[0]: len(group) for group in worlds(counted(stage, plot))}
    plans: list[Plan] = []
    pairs = 0
    for one, as_many in alike.items():
        story = Story(stage, plot, [Fault(one[1], one[0])]).play()
        plans += [(one, group[0]) for group in worlds(story, one[1] + 1)]
        pairs += as_many * len(deaths(story, one[1] + 1))
    tally = shown("two deaths", stage, plot, plans)
    print(f"{tally.stories} pairs stand for all {pairs}; the others leave the same worlds behind")
