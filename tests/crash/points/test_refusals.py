"""Whatever the server answers in place of an answer, whoever stands still wherever, and wherever the messages are: the same."""

from __future__ import annotations

import pytest

from tests.crash.points.faults import Fault
from tests.crash.points.plans import deaths, lost_replies, pairs, pauses, refusals, worlds
from tests.crash.points.plot import Plot
from tests.crash.points.plots import HASTY, PLAIN, WHOLE
from tests.crash.points.story import Stage, Story
from tests.crash.points.test_points import counted, play, shown

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("plot", [WHOLE, HASTY], ids=lambda plot: plot.name)
def test_every_request_may_be_refused(stage: Stage, plot: Plot) -> None:
    """With each error that a server gives in place of an answer, and with none at all."""
    shown("refused", stage, plot, ((refusal,) for refusal in refusals(counted(stage, plot))))


def test_a_process_may_die_while_it_loads_a_script(stage: Stage) -> None:
    """The server has forgotten a script; whoever sends it again dies of it, at each of the points that are met only then."""
    story = counted(stage, WHOLE)
    first = {story.wire.trace[place].name: (kind, place) for kind, place in reversed(refusals(story)) if kind == "NOSCRIPT"}
    plans = pairs(lambda faults: Story(stage, WHOLE, faults).play(), first.values(), lambda story, start: deaths(story, start)[:4])
    assert shown("script forgotten, and death", stage, WHOLE, plans).stories == 4 * len(first)


@pytest.mark.parametrize("wakes", ["later", "between"])
@pytest.mark.parametrize("plot", [WHOLE, HASTY], ids=lambda plot: plot.name)
def test_a_worker_may_stand_still_while_another_takes_its_round(stage: Stage, plot: Plot, wakes: str) -> None:
    """It wakes when the run has gone on without it, or in the middle of the other's round; what it then hands back is refused."""
    fenced = 0

    def plays(faults: list[Fault]) -> Story:
        nonlocal fenced
        story = Story(stage, plot, faults, wakes=wakes).play()
        assert story.sleepers.slept == story.sleepers.woke == len(faults)
        fenced += sum(what == "commit" and details["word"] == "fenced" for what, details in story.told)
        return story

    tally = play(f"standing still, woken {wakes}", plays, plot, ((pause,) for pause in pauses(counted(stage, plot))))
    print(f"{fenced} late commits were refused")
    assert fenced >= tally.stories / 4


def test_a_process_may_die_at_every_point_of_a_hasty_run(stage: Stage) -> None:
    story = counted(stage, HASTY)
    shown("death at every point", stage, HASTY, ((death,) for death in deaths(story)))
    shown("reply lost", stage, HASTY, ((lost,) for lost in lost_replies(story)))


def test_with_the_outbox_a_process_may_die_at_every_point(outbox_stage: Stage) -> None:
    story = counted(outbox_stage, WHOLE)
    assert "LPUSH" in {point.name for point in story.wire.trace}
    shown("outbox: death at every point", outbox_stage, WHOLE, ((death,) for death in deaths(story)))
    shown("outbox: reply lost", outbox_stage, WHOLE, ((lost,) for lost in lost_replies(story)))


def test_with_the_outbox_every_request_may_be_refused(outbox_stage: Stage) -> None:
    shown("outbox: refused", outbox_stage, PLAIN, ((refusal,) for refusal in refusals(counted(outbox_stage, PLAIN))))


@pytest.mark.parametrize("plot", [WHOLE, HASTY], ids=lambda plot: plot.name)
def test_a_process_may_die_and_another_while_that_is_mended(stage: Stage, plot: Plot) -> None:
    """All pairs of deaths that leave different worlds behind: the second one anywhere after the first."""
    story = counted(stage, plot)
    plans = list(pairs(lambda faults: Story(stage, plot, faults).play(), worlds(story), worlds))
    shown("two deaths", stage, plot, plans)
