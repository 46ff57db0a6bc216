"""Figures: plays many stories, prints the results (``pytest -s``), and fails if a law was broken."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.crash.points.plans import Plan, Plays, Tally, play_all, smallest
from tests.crash.points.plot import Plot
from tests.crash.points.stage import Stage
from tests.crash.points.story import Story


def shown(what: str, stage: Stage, plot: Plot, plans: Iterable[Plan]) -> Tally:
    """Play the plans, print the results, and fail if a law was broken."""
    return play(what, lambda faults: Story(stage, plot, faults).play(), plot, plans)


def play(what: str, plays: Plays, plot: Plot, plans: Iterable[Plan]) -> Tally:
    """Do the same with stories played in another way."""
    began = time.monotonic()
    tally = play_all(plays, plans)
    print(f"\n{what} ({plot.name}): {tally}, {time.monotonic() - began:.1f} s")
    assert tally.stories > 0
    assert not tally.found, smallest(tally)
    return tally


def counted(stage: Stage, plot: Plot) -> Story:
    """Play the story without a fault, twice: the server knows the scripts in the second one."""
    Story(stage, plot).play()
    return Story(stage, plot).play()
