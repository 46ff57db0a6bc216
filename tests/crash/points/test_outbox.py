"""The same where the messages are elsewhere: published after the commit, acknowledged after the
round.
"""

from __future__ import annotations

import pytest

from tests.crash.points.figures import counted, shown
from tests.crash.points.plans import deaths, lost_replies, refusals
from tests.crash.points.plot import Plot
from tests.crash.points.plots import BEARS, PLAIN, WAITS, WHOLE
from tests.crash.points.stage import Stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.long
@pytest.mark.parametrize("plot", [WHOLE, WAITS, BEARS], ids=lambda plot: plot.name)
def test_with_the_outbox_a_process_may_die_at_every_point(outbox_stage: Stage, plot: Plot) -> None:
    story = counted(outbox_stage, plot)
    assert "LPUSH" in {point.name for point in story.wire.trace}
    shown("outbox: death at every point", outbox_stage, plot, ((death,) for death in deaths(story)))
    shown("outbox: reply lost", outbox_stage, plot, ((lost,) for lost in lost_replies(story)))


def test_with_the_outbox_every_request_may_be_refused(outbox_stage: Stage) -> None:
    shown(
        "outbox: refused",
        outbox_stage,
        PLAIN,
        ((refusal,) for refusal in refusals(counted(outbox_stage, PLAIN))),
    )
