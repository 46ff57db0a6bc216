"""Experiment: a flow played undisturbed, then once for every fault at every boundary, and each story judged."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from worker.run import RunStatus
from worker.testing.answering import Answers
from worker.testing.boundaries import Boundary, Fault, faults_at
from worker.testing.failures import LabError, NotDeterministic, Stuck
from worker.testing.ground import Ground
from worker.testing.judging import Check, Wrong, fault_of_check, faults_of
from worker.testing.player import Player
from worker.testing.playing import Submission
from worker.testing.report import Report, found
from worker.testing.story import Story
from worker.testing.subject import Subject, maker

UNDISTURBED = "undisturbed"
#: Rounds and waits after which an undisturbed run that has not ended is given up.
LONGEST = 2000
#: What a fault may add to them: a lapse takes a few sweeps, a loss or a stop a round or two, and backoffs and deadlines a wait each.
MORE = 50


class Experiment:
    """One flow, one goal, and all the stories of it."""

    def __init__(
        self,
        ground: Ground,
        flow: Subject,
        answers: Answers,
        world: Callable[[], Any] | None,
        check: Check | None,
        ends: RunStatus,
        same_answer: bool,
        heeds_stop: bool,
        options: Mapping[str, Any],
        goal: str,
        inputs: Mapping[str, Any],
    ) -> None:
        self._ground, self._flow, self._world, self._check = ground, flow, world, check
        self._ends, self._same_answer, self._heeds_stop = ends, same_answer, heeds_stop
        # One id for all stories: keys and answers that hold it stay the same. Another for each experiment: the world may be a
        # sandbox that remembers the keys of yesterday.
        self._submit = partial(Submission, f"lab-{uuid.uuid4().hex[:8]}", goal=goal, inputs=inputs, options=options, answers=answers)

    def play(self, only: str | None, limit: int | None) -> Report:
        """See Lab."""
        __tracebackhide__ = True
        began = time.monotonic()
        with _quiet(only is None):
            undisturbed, boundaries = self._undisturbed()
            every = list(faults_at(boundaries))
            chosen = _chosen(every, only, limit)
            wrong = []
            for fault in chosen:
                story = Story(str(fault))
                fault_found = self._play(story, fault, boundaries, undisturbed)
                if fault_found is not None:
                    wrong.append((story, fault_found))
        if wrong:
            raise found(undisturbed.run.flow, wrong, len(chosen))
        left_out, seconds = len(every) - len(chosen), time.monotonic() - began
        return Report(undisturbed.run.flow, undisturbed.run.goal, undisturbed, boundaries, tuple(chosen), left_out, seconds)

    def _undisturbed(self) -> tuple[Story, tuple[Boundary, ...]]:
        """The run as it goes when nothing is done to it; played twice, to see that it goes the same way."""
        __tracebackhide__ = True
        plays = []
        for name in (UNDISTURBED, f"{UNDISTURBED}, again"):
            story = Story(name)
            boundaries: list[Boundary] = []
            wrong = self._play(story, None, (), story, boundaries)
            if story.status is not self._ends:
                error = f" ({story.run.error})" if story.run.error else ""
                hint = f"Mend that first; or, if it is meant to end so, pass ends={story.status.value!r}"
                raise LabError(f"undisturbed, the run ends {story.status.value}, not {self._ends.value}{error}. {hint}")
            if wrong is not None:
                raise found(story.run.flow, [(story, Wrong(f"{wrong.text}; and nothing was done to the run"))], 1)
            plays.append((story, tuple(boundaries)))
        (first, passed), (second, passed_again) = plays
        for there, was in zip(passed_again, passed, strict=False):
            if there != was:
                _differs(first.run.flow, f"at {was.round}, {was}, it came to {there.round}, {there}")
        if len(passed) != len(passed_again):
            _differs(first.run.flow, f"it took {len(passed)} boundaries, then {len(passed_again)}")
        if self._same_answer and first.answer != second.answer:
            _differs(first.run.flow, f"it answered {first.answer!r}, then {second.answer!r}", ", or pass same_answer=False")
        return first, passed

    def _play(
        self, story: Story, fault: Fault | None, expected: Sequence[Boundary], undisturbed: Story, boundaries: list[Boundary] | None = None
    ) -> Wrong | None:
        """Play one story in a world of its own; what is wrong with it, or None."""
        __tracebackhide__ = True
        with ExitStack() as stack:
            world = self._world() if self._world is not None else None
            story.world = stack.enter_context(world) if isinstance(world, AbstractContextManager) else world
            make = maker(self._flow, story.world)
            engine, flow = self._ground.engine, make()
            client = self._ground.client(flow)
            playing = engine, self._ground.store, client, self._submit(name=flow.name), make, story
            player = Player(*playing, fault=fault, expected=expected, patience=LONGEST if fault is None else 2 * len(expected) + MORE)
            try:
                player.play()
            except Stuck as stuck:
                if fault is None:
                    raise LabError(f"flow {flow.name!r}, undisturbed: {stuck}. Give it max_rounds, or less to do") from stuck
                return Wrong(str(stuck), ours=True)
            if boundaries is not None:
                boundaries += player.boundaries
            if fault is None and story.status is not self._ends:
                return None
            # The user's check first: it says more about what matters to them.
            return fault_of_check(story, self._check) or next(faults_of(story, undisturbed, self._same_answer, self._heeds_stop), None)


def _chosen(faults: Sequence[Fault], only: str | None, limit: int | None) -> list[Fault]:
    chosen = [fault for fault in faults if only is None or only in str(fault)]
    if not chosen:
        raise LabError(f"no story's name contains {only!r}; there are {'; '.join(map(str, faults[:12]))} and so on")
    if limit is None or len(chosen) <= limit:
        return chosen
    if limit < 1:
        raise LabError(f"limit is {limit}; expected a number of stories from 1 up, or None for all")
    return [chosen[place * len(chosen) // limit] for place in range(limit)]


def _differs(flow: str, how: str, otherwise: str = "") -> None:
    raise NotDeterministic(
        f"flow {flow!r} went another way when the same run was played again with nothing done to it: {how}. A fault is put at a boundary "
        "that must be there each time: let what decides depend on nothing but the run (no clock, no chance, no global), script the model, "
        f"and make the outside world anew with world=...{otherwise}"
    )


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    """Without the engine's log, which in a lab is hundreds of lines about faults that were asked for."""
    logger = logging.getLogger("holdfast")
    level = logger.level
    if wanted:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
