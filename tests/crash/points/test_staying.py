"""A run that stays with its worker, struck where it does: before the commit that leases its next
round, behind it, and in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.crash.points.faults import DIES_AFTER, DIES_BEFORE, REPLY_LOST, Fault
from tests.crash.points.figures import counted, play
from tests.crash.points.plot import Plot
from tests.crash.points.plots import STAYS, acts
from tests.crash.points.stage import STAYING, Stage
from tests.crash.points.story import Story

#: The points of a worker that goes on with its run: the commit, the end of its message, and the
#: next round as it arrives.
STAY = ["commit_and_continue", "before the ack", "stays"]

staying = acts((STAYING, STAYS))


def stays(story: Story) -> list[int]:
    """Return the points where a run stays."""
    names = [point.name for point in story.wire.trace]
    return [place for place in range(len(names)) if names[place : place + 3] == STAY]


def granted(story: Story) -> Counter[str]:
    """Count the claims that each transition granted."""
    return Counter(details["by"] for what, details in story.told if what == "granted")


def lost(story: Story) -> int:
    """Count the rounds that were given to others."""
    assert story.person.run_id is not None
    return sum(
        event["type"] == "lost" for _, event in story.inspector.events.read(story.person.run_id)
    )


@staying
def test_rounds_stay_are_fetched_and_come_unclaimed(stage: Stage, plot: Plot) -> None:
    story = counted(stage, plot)
    assert (
        granted(story) == {"claim_round": 3, "commit_round": 2, "commit_and_continue": 3}
        and len(stays(story)) == 3
    )
    names = Counter(point.name for point in story.wire.trace)
    assert names["delivered"] == names["RPOP"] + 1, (
        "the message that came twice was fetched, unclaimed"
    )


@staying
@pytest.mark.parametrize(("kind", "robbed"), [(DIES_BEFORE, 1), (DIES_AFTER, 1), (REPLY_LOST, 0)])
def test_each_stay_may_be_struck(stage: Stage, plot: Plot, kind: str, robbed: int) -> None:
    """A worker that dies there loses the round, once.

    A lost answer costs nothing: the server repeats it.
    """
    story = counted(stage, plot)

    def plays(faults: Sequence[Fault]) -> Story:
        played = Story(stage, plot, faults).play()
        assert played.wire.trace[faults[0].at].name == "commit_and_continue"
        assert lost(played) == robbed
        if kind == REPLY_LOST:
            assert granted(played) == granted(story)
        return played

    assert play(kind, plays, plot, (((kind, place),) for place in stays(story))).stories >= 3


@staying
def test_a_worker_may_die_before_it_begins_what_came_with_its_commit(
    stage: Stage, plot: Plot
) -> None:
    story = counted(stage, plot)
    places = [
        place for place, point in enumerate(story.wire.trace) if point.name in ("stays", "fetched")
    ]

    def plays(faults: Sequence[Fault]) -> Story:
        played = Story(stage, plot, faults).play()
        assert lost(played) == 1
        return played

    by = granted(story)
    tally = play("not begun", plays, plot, (((DIES_BEFORE, place),) for place in places))
    assert tally.fired == by["commit_round"] + by["commit_and_continue"]
