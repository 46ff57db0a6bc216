"""All crash points: after a death or a cut anywhere, the run goes on as if nothing had been."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perdure.worker.store.scripts import TRANSITIONS
from tests.crash.points.faults import DIES_BEFORE, Fault
from tests.crash.points.figures import counted, play, shown
from tests.crash.points.plans import changes, deaths, lost_replies, worlds
from tests.crash.points.plot import Plot
from tests.crash.points.plots import (
    BEARS,
    BREEDS,
    DOZES,
    EVERY_ACT,
    RENEWS,
    STAYS,
    WAITS,
    WHOLE,
    acts,
)
from tests.crash.points.stage import LISTS, STAYING, Stage
from tests.crash.points.story import Story

#: Transitions of operations that these stories do not have, each with the tests that do.
ELSEWHERE = {
    "commit_and_continue": "test_staying.py",
    "signal_topic": "tests/run/runs/test_topics.py",
    "record_intent": "tests/store/test_intent.py",
    "record_result": "tests/store/test_once.py",
    "raise_limit": "tests/store/test_budgets_above.py",
    "open_hook": "tests/store/test_hooks.py",
    "take_topic": "tests/store/test_topics.py",
    "set_trace": "tests/store/test_trace.py",
    "ask_provider": "tests/store/test_providers.py",
    "release_dead_lease": "tests/store/test_forfeit.py",
    "delete_run": "tests/store/test_operations_repeat.py",
    "check_run": "it writes nothing",
    "read_fields": "it writes nothing",
    "list_entries": "it writes nothing",
    "requeue_paused": "tests/store/test_paused.py",
    "redirect_round": "tests/store/test_hand_on.py",
    "quarantine_run": "tests/store/test_quarantine.py",
    "put_note": "tests/store/test_notes.py",
    "forget_notes": "tests/store/test_notes.py",
    "show_text": "tests/store/test_live_text.py",
}


@EVERY_ACT
def test_without_a_fault_nothing_is_tried_twice(stage: Stage, plot: Plot) -> None:
    shown("no fault", stage, plot, [()])


@acts((LISTS, RENEWS))
def test_without_a_fault_a_run_is_renewed_once(stage: Stage, plot: Plot) -> None:
    shown("no fault", stage, plot, [()])


@acts((LISTS, WHOLE), (STAYING, STAYS))
def test_a_story_meets_the_same_points_whenever_it_is_played(stage: Stage, plot: Plot) -> None:
    story = counted(stage, plot)
    assert story.wire.trace == Story(stage, plot).play().wire.trace


def test_every_transition_of_these_operations_is_among_the_points(stage: Stage) -> None:
    traces = [counted(stage, plot).wire.trace for plot in (WHOLE, WAITS, BEARS)]
    seen = {point.name for trace in traces for point in trace if point.request}
    assert set(TRANSITIONS) - seen == set(ELSEWHERE)


@pytest.mark.slow
@pytest.mark.timeout(600)  # where the cores are taken, hundreds of stories take their time
@acts(
    (LISTS, WHOLE),
    (STAYING, WHOLE),
    (STAYING, STAYS),
    (LISTS, WAITS),
    (STAYING, DOZES),
    (LISTS, BEARS),
    (STAYING, BREEDS),
    (LISTS, RENEWS),
)
def test_a_process_may_die_at_every_point(stage: Stage, plot: Plot) -> None:
    story = counted(stage, plot)
    places, requests = len(story.wire.trace), sum(point.request for point in story.wire.trace)
    after: dict[tuple[str, int], list[str]] = {}

    def plays(faults: Sequence[Fault]) -> Story:
        played = Story(stage, plot, faults).play()
        after[faults[0].kind, faults[0].at] = changes(played, faults[0].at + 1)
        return played

    tally = play("death at every point", plays, plot, ((death,) for death in deaths(story)))
    assert tally.stories == places + requests
    alike = worlds(story)
    print(
        f"points: {requests} requests, {places - requests} boundaries of user code; {len(alike)} different worlds left behind"
    )
    # The basis of the pairs: the same state has the same future.
    assert [
        group for group in alike if any(after[death] != after[group[0]] for death in group)
    ] == []


@pytest.mark.slow
@acts(
    (LISTS, WHOLE),
    (STAYING, WHOLE),
    (STAYING, STAYS),
    (LISTS, WAITS),
    (STAYING, DOZES),
    (LISTS, BEARS),
    (STAYING, BREEDS),
    (LISTS, RENEWS),
)
def test_every_reply_may_be_lost(stage: Stage, plot: Plot) -> None:
    shown("reply lost", stage, plot, ((lost,) for lost in lost_replies(counted(stage, plot))))


def test_a_fault_that_never_strikes_is_no_proof(stage: Stage) -> None:
    with pytest.raises(AssertionError, match="struck 0 times"):
        shown("a fault behind the end", stage, WHOLE, [((DIES_BEFORE, 100_000),)])
