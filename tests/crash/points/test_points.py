"""Crash points, all of them: whatever dies or is cut off wherever, the run goes on as if nothing had been."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from tests.crash.points.faults import DIES_BEFORE
from tests.crash.points.plans import Plan, Plays, Tally, deaths, lost_replies, play_all, smallest, worlds
from tests.crash.points.plot import Plot
from tests.crash.points.plots import HASTY, WHOLE
from tests.crash.points.story import Stage, Story
from worker.store.scripts import TRANSITIONS

#: Transitions of operations that these stories do not have, each with the tests that do.
ELSEWHERE = {
    "forfeit_lease": "tests/store/test_forfeit.py",
    "delete_run": "tests/store/test_operations_repeat.py",
    "examine_run": "it writes nothing",
    "offer_again": "tests/store/test_paused.py",
}


def shown(what: str, stage: Stage, plot: Plot, plans: Iterable[Plan]) -> Tally:
    """Play the plans, print what came of them, and fail where a law was broken."""
    return play(what, lambda faults: Story(stage, plot, faults).play(), plot, plans)


def play(what: str, plays: Plays, plot: Plot, plans: Iterable[Plan]) -> Tally:
    """The same of stories that are played in some way of their own."""
    began = time.monotonic()
    tally = play_all(plays, plans)
    print(f"\n{what} ({plot.name}): {tally}, {time.monotonic() - began:.1f} s")
    assert tally.stories > 0
    assert not tally.found, smallest(tally)
    return tally


def counted(stage: Stage, plot: Plot) -> Story:
    """The story without a fault, twice: the server knows the scripts in the second one."""
    Story(stage, plot).play()
    return Story(stage, plot).play()


@pytest.mark.parametrize("plot", [WHOLE, HASTY], ids=lambda plot: plot.name)
def test_without_a_fault_nothing_is_tried_twice(stage: Stage, plot: Plot) -> None:
    shown("no fault", stage, plot, [()])


def test_a_story_meets_the_same_points_whenever_it_is_played(stage: Stage) -> None:
    story = counted(stage, WHOLE)
    assert story.wire.trace == Story(stage, WHOLE).play().wire.trace


def test_every_transition_of_these_operations_is_among_the_points(stage: Stage) -> None:
    seen = {point.name for point in counted(stage, WHOLE).wire.trace if point.request}
    assert set(TRANSITIONS) - seen == set(ELSEWHERE)


def test_a_process_may_die_at_every_point(stage: Stage) -> None:
    story = counted(stage, WHOLE)
    requests = sum(point.request for point in story.wire.trace)
    tally = shown("death at every point", stage, WHOLE, ((death,) for death in deaths(story)))
    assert tally.stories == 2 * requests + (len(story.wire.trace) - requests)
    print(f"points: {requests} requests, {len(story.wire.trace) - requests} boundaries of user code; {len(worlds(story))} worlds left behind")


def test_every_reply_may_be_lost(stage: Stage) -> None:
    shown("reply lost", stage, WHOLE, ((lost,) for lost in lost_replies(counted(stage, WHOLE))))


def test_a_fault_that_never_strikes_is_no_proof(stage: Stage) -> None:
    with pytest.raises(AssertionError, match="struck 0 times"):
        shown("a fault behind the end", stage, WHOLE, [((DIES_BEFORE, 100_000),)])
