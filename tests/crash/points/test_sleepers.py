"""A process that stands still anywhere while others go on is refused when it wakes."""

from __future__ import annotations

import pytest

from tests.crash.points.faults import Fault
from tests.crash.points.figures import counted, play
from tests.crash.points.plans import pauses
from tests.crash.points.plot import Plot
from tests.crash.points.plots import EVERY_ACT
from tests.crash.points.stage import Stage
from tests.crash.points.story import Story

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("wakes", ["later", "between", "a round on"])
@EVERY_ACT
def test_a_worker_may_stand_still_while_another_takes_its_round(
    stage: Stage, plot: Plot, wakes: str
) -> None:
    """It wakes when the run has gone on without it, or in the middle of a round of the other.

    Its late commit is refused.
    """
    fenced = 0

    def plays(faults: list[Fault]) -> Story:
        nonlocal fenced
        story = Story(stage, plot, faults, wakes=wakes).play()
        assert story.sleepers.slept == story.sleepers.woke == len(faults)
        fenced += sum(
            what == "commit" and details["word"] == "fenced" for what, details in story.told
        )
        return story

    tally = play(
        f"standing still, woken {wakes}",
        plays,
        plot,
        ((pause,) for pause in pauses(counted(stage, plot))),
    )
    print(f"{fenced} late commits were refused")
    assert fenced >= tally.stories / 4
