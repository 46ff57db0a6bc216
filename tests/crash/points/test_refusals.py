"""Errors in place of an answer: the request is repeated, and nothing is done twice."""

from __future__ import annotations

import pytest

from tests.crash.points.figures import counted, shown
from tests.crash.points.plans import deaths, lost_replies, pairs, refusals
from tests.crash.points.plot import Plot
from tests.crash.points.plots import EVERY_ACT, HASTY, RESTLESS, STAYS, WHOLE, acts
from tests.crash.points.stage import LISTS, STAYING, Stage
from tests.crash.points.story import Story

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@EVERY_ACT
def test_every_request_may_be_refused(stage: Stage, plot: Plot) -> None:
    """With each error that a server gives in place of an answer, and with none at all."""
    shown("refused", stage, plot, ((refusal,) for refusal in refusals(counted(stage, plot))))


@acts((LISTS, WHOLE), (STAYING, STAYS))
def test_a_process_may_die_while_it_loads_a_script(stage: Stage, plot: Plot) -> None:
    """The server has forgotten a script.

    The process that sends it again dies, at each of the points that are met only then.
    """
    story = counted(stage, plot)
    first = {
        story.wire.trace[place].name: (kind, place)
        for kind, place in reversed(refusals(story))
        if kind == "NOSCRIPT"
    }
    plans = pairs(
        lambda faults: Story(stage, plot, faults).play(),
        first.values(),
        lambda story, start: deaths(story, start)[:4],
    )
    assert shown("script forgotten, and death", stage, plot, plans).stories == 4 * len(first)


@acts((LISTS, HASTY), (STAYING, HASTY), (STAYING, RESTLESS))
def test_a_process_may_die_at_every_point_of_a_run_that_is_stopped_now(
    stage: Stage, plot: Plot
) -> None:
    story = counted(stage, plot)
    shown("death at every point", stage, plot, ((death,) for death in deaths(story)))
    shown("reply lost", stage, plot, ((lost,) for lost in lost_replies(story)))
