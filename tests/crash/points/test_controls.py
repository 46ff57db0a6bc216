"""The sight of the laws: an engine without one of its rules breaks them, at the very fault that the
rule is there for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure import RoundContext
from tests.crash.points.controls import (
    ANSWERED,
    ANY_TOKEN,
    FENCE,
    FETCHED_BEFORE,
    FOLLOWED,
    OPERATED,
    PUSHED,
    RENEWED,
    STAY_ANSWERED,
    STAY_DUE,
    STAY_FENCE,
    STAY_STOP,
    WOKEN_DUE,
    Split,
    split,
    without,
)
from tests.crash.points.faults import DIES_AFTER, DIES_BEFORE, PAUSES_BEFORE, REPLY_LOST, Fault
from tests.crash.points.plans import broken
from tests.crash.points.plot import Plot
from tests.crash.points.plots import BEARS, PLAIN, RENEWS, STAYS, WAITS, WHOLE
from tests.crash.points.stage import STAYING, Stage
from tests.crash.points.story import Story


def laws_broken(
    stage: Stage, kind: str, name: str, plot: Plot = PLAIN, nth: int = 0, **control: Any
) -> set[str]:
    """Return the laws that the fault at the ``nth`` point of that name breaks under the control.

    Without a fault it breaks none.
    """
    Story(stage, plot, **control).play()
    story = Story(stage, plot, **control).play()
    assert not broken(lambda faults: Story(stage, plot, faults, **control).play(), [])
    places = [place for place, point in enumerate(story.wire.trace) if point.name == name]
    fault = Fault(places[nth], kind)
    found = broken(lambda faults: Story(stage, plot, faults, **control).play(), [fault])
    assert fault.fired == 1
    assert not broken(
        lambda faults: Story(stage, plot, faults).play(), [Fault(places[nth], kind)]
    ), "the engine itself breaks a law here"
    return {violation.law for violation in found}


def test_without_the_sweep_a_crash_is_never_recovered(stage: Stage) -> None:
    assert "V1" in laws_broken(stage, DIES_BEFORE, "commit_round", sweeps=False)


def test_without_the_newest_token_an_old_one_commits(stage: Stage) -> None:
    change = without(FENCE, "commit_round", instead=ANY_TOKEN)
    assert "I4" in laws_broken(stage, PAUSES_BEFORE, "commit_round", wakes="between", change=change)


def test_without_the_fence_a_round_is_committed_twice(stage: Stage) -> None:
    change = without(FENCE, "commit_round")
    assert {"I1", "I4", "I7"} <= laws_broken(
        stage, PAUSES_BEFORE, "commit_round", nth=-1, change=change
    )


def test_a_split_commit_without_outbox_loses_the_run(stage: Stage) -> None:
    assert "V1" in laws_broken(stage, DIES_AFTER, "commit_round", change=split, dispatcher=Split)


def test_a_commit_that_leaves_its_message_to_the_sweep_is_not_one_effect(stage: Stage) -> None:
    change = without(PUSHED, "commit_round")
    laws = {
        violation.law
        for violation in broken(
            lambda faults: Story(stage, PLAIN, faults, change=change).play(), []
        )
    }
    assert {"I6", "V4"} <= laws


def test_a_commit_that_forgets_its_answer_robs_the_worker_that_made_it(stage: Stage) -> None:
    assert "V5" in laws_broken(
        stage,
        REPLY_LOST,
        "commit_round",
        change=without(ANSWERED, "commit_round", instead="if false then\n"),
    )


def test_an_operation_that_forgets_its_answer_is_refused_to_whoever_did_it(stage: Stage) -> None:
    assert "no surprise" in laws_broken(
        stage, REPLY_LOST, "retry_run", WHOLE, change=without(OPERATED, "retry_run")
    )


def test_a_key_of_its_own_for_each_attempt_applies_an_effect_twice(stage: Stage) -> None:
    def naive(context: RoundContext) -> str:
        return f"{context.run_id}:{context.step}:{context.attempt}"

    assert "I12" in laws_broken(stage, DIES_BEFORE, "behind the effect", key_of=naive)


def test_a_signal_that_makes_its_run_due_only_by_its_sender_is_no_promise(stage: Stage) -> None:
    change = without(WOKEN_DUE, "signal_run", instead="  return { 'unmade'")
    # The last one is the sender's: the first wakes a run whose time has come, and is a sweep's.
    assert "V1" in laws_broken(stage, DIES_BEFORE, "wake_run", WAITS, nth=-1, change=change)


def test_a_follow_up_that_only_its_maker_knows_is_no_promise(stage: Stage) -> None:
    change = without(FOLLOWED, "commit_round", "sweep_due")
    plot = replace(BEARS, halts=None)
    assert "V1" in laws_broken(stage, DIES_BEFORE, "start_children", plot, change=change)


def test_a_renewal_that_keeps_the_values_is_noticed(stage: Stage) -> None:
    change = without(RENEWED, "commit_round")
    found = broken(lambda faults: Story(stage, RENEWS, faults, change=change).play(), [])
    assert "V1" in {violation.law for violation in found}  # its content is damaged


#: The step of STAYS whose commit it is: its number of earlier requests to stay. The first goes into
#: a queue from which nothing has been taken yet.
FIRST_STAY, AFTER_THE_STOP, WITHOUT_A_BEAT = 1, 3, 4

staying = pytest.mark.parametrize("stage", [STAYING], indirect=True)


@staying
def test_without_its_fence_a_stay_takes_the_round_that_another_has(stage: Stage) -> None:
    change = without(STAY_FENCE, "commit_and_continue")
    laws = laws_broken(
        stage,
        PAUSES_BEFORE,
        "commit_and_continue",
        STAYS,
        FIRST_STAY,
        wakes="a round on",
        change=change,
    )
    assert "I4" in laws


@staying
def test_a_stay_that_forgets_its_answer_robs_the_worker_that_made_it(stage: Stage) -> None:
    """With a commit before it that prefetched nothing: else commit_round may know the claim by that
    prefetch.
    """
    change, plot = without(STAY_ANSWERED, "commit_and_continue"), replace(STAYS, doubled=False)
    assert "V5" in laws_broken(
        stage, REPLY_LOST, "commit_and_continue", plot, AFTER_THE_STOP, change=change
    )


@staying
def test_a_stay_without_its_due_time_is_no_promise(stage: Stage) -> None:
    change = without(STAY_DUE, "commit_and_continue")
    assert "at a death" in laws_broken(
        stage, DIES_AFTER, "commit_and_continue", STAYS, WITHOUT_A_BEAT, change=change
    )


@staying
def test_a_stay_that_asks_for_no_stop_goes_on_after_it(stage: Stage) -> None:
    change = without(STAY_STOP, "commit_and_continue")
    laws = {
        violation.law
        for violation in broken(
            lambda faults: Story(stage, STAYS, faults, change=change).play(), []
        )
    }
    assert "I8" in laws


@staying
def test_a_commit_that_forgets_what_it_fetched_robs_the_worker_of_it(stage: Stage) -> None:
    change = without(FETCHED_BEFORE, "commit_round", instead=" }")
    assert "V5" in laws_broken(stage, REPLY_LOST, "commit_round", STAYS, change=change)
