"""Experiment: runs a flow undisturbed, then once per fault and boundary, and checks each story."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from perdure.flows.rounds.lifespans import close_lifespans
from perdure.worker.domain.run import RunStatus
from perdure.worker.testing.answers import Answers
from perdure.worker.testing.checks import Check, Violation, fault_of_check, faults_of
from perdure.worker.testing.driver import LabSubmission
from perdure.worker.testing.errors import LabError, NotDeterministic, Stuck
from perdure.worker.testing.faults import Boundary, Fault, faults_at
from perdure.worker.testing.player import Player
from perdure.worker.testing.report import Report, found
from perdure.worker.testing.server import LabServer
from perdure.worker.testing.signals import LabSignals
from perdure.worker.testing.story import Story
from perdure.worker.testing.subject import Subject, maker

UNDISTURBED = "undisturbed"
#: Number of rounds and waits after which an undisturbed run that has not ended is aborted.
LONGEST = 2000
#: Rounds and waits that a fault may add. A lapsed lease takes a few sweeps, a loss or a stop one or
#: two rounds, and each backoff or deadline a wait.
MORE = 50


class Experiment:
    """Runner of all stories of one flow and one goal. It also checks the stories.

    The arguments are those of ``Lab``, but ``ground`` is the lab's server.
    """

    def __init__(
        self,
        ground: LabServer,
        flow: Subject,
        answers: Answers,
        signals: LabSignals,
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
        # All stories use one run id, so that keys and answers that contain it do not change. Each
        # experiment uses another, because the outside world may be a sandbox that remembers
        # yesterday's keys.
        self._submit = partial(
            LabSubmission,
            f"lab-{uuid.uuid4().hex[:8]}",
            goal=goal,
            inputs=inputs,
            options=options,
            answers=answers,
            signals=signals,
        )
        self._has_signals = bool(signals.names)

    def play(self, only: str | None, limit: int | None) -> Report:
        """Run the flow undisturbed, then once for each chosen fault.

        Args:
            only, limit: As for ``Lab``.

        Returns:
            The report, if no story went wrong.

        Raises:
            CrashFound: A story went wrong.
            NotDeterministic: The undisturbed run takes another path when it is repeated.
            LabError: The flow cannot be run, or no story is chosen.
        """
        __tracebackhide__ = True
        began = time.monotonic()
        with _quiet(only is None):
            undisturbed, boundaries = self._undisturbed()
            every = list(faults_at(boundaries, self._has_signals))
            chosen = _chosen(every, only, limit)
            wrong = []
            for fault in chosen:
                story = Story(str(fault))
                fault_result = self._play(story, fault, boundaries, undisturbed)
                if fault_result is not None:
                    wrong.append((story, fault_result))
        if wrong:
            raise found(undisturbed.run.flow, wrong, len(chosen))
        left_out, seconds = len(every) - len(chosen), time.monotonic() - began
        return Report(
            undisturbed.run.flow,
            undisturbed.run.goal,
            undisturbed,
            boundaries,
            tuple(chosen),
            left_out,
            seconds,
        )

    def _undisturbed(self) -> tuple[Story, tuple[Boundary, ...]]:
        """Run the flow twice without a fault, and compare both runs.

        Returns:
            The first story and its boundaries.

        Raises:
            NotDeterministic: The runs passed different boundaries or have different answers.
            LabError: A run does not end with the expected status.
            CrashFound: A run breaks a rule, although no fault was injected.
        """
        __tracebackhide__ = True
        plays = []
        for name in (UNDISTURBED, f"{UNDISTURBED}, again"):
            story = Story(name)
            boundaries: list[Boundary] = []
            wrong = self._play(story, None, (), story, boundaries)
            if story.status is not self._ends:
                error = f" ({story.run.error})" if story.run.error else ""
                hint = f"Fix that first; or, if that is intended, pass ends={story.status.value!r}"
                raise LabError(
                    f"undisturbed, the run ends {story.status.value}, "
                    f"not {self._ends.value}{error}. {hint}"
                )
            if wrong is not None:
                raise found(
                    story.run.flow,
                    [(story, Violation(f"{wrong.text}; and nothing was done to the run"))],
                    1,
                )
            plays.append((story, tuple(boundaries)))
        (first, passed), (second, passed_again) = plays
        for there, was in zip(passed_again, passed, strict=False):
            if there != was:
                _differs(
                    first.run.flow, f"at {was.round}, {was}, it came to {there.round}, {there}"
                )
        if len(passed) != len(passed_again):
            _differs(first.run.flow, f"it took {len(passed)} boundaries, then {len(passed_again)}")
        if self._same_answer and first.answer != second.answer:
            _differs(
                first.run.flow,
                f"it answered {first.answer!r}, then {second.answer!r}",
                ", or pass same_answer=False",
            )
        return first, passed

    def _play(
        self,
        story: Story,
        fault: Fault | None,
        expected: Sequence[Boundary],
        undisturbed: Story,
        boundaries: list[Boundary] | None = None,
    ) -> Violation | None:
        """Run one story with at most one injected fault, and return its first violation.

        The run gets a new outside world, such as a fake bank.

        Args:
            fault: The fault. None for an undisturbed run.
            expected: The boundaries of the undisturbed run.
            undisturbed: The story without a fault.
            boundaries: A list to which the boundaries of this run are added. None: they are not
                needed.

        Returns:
            The violation. None if the story breaks no rule, or if an undisturbed run ended with
            another status than expected, which the caller reports.
        """
        __tracebackhide__ = True
        with ExitStack() as stack:
            world = self._world() if self._world is not None else None
            story.world = (
                stack.enter_context(world) if isinstance(world, AbstractContextManager) else world
            )
            # Each story opens its own lifespans, since a lifespan may use the story's world.
            stack.callback(close_lifespans)
            make = maker(self._flow, story.world)
            engine, flow = self._ground.engine, make()
            client = self._ground.client(flow)
            playing = engine, self._ground.store, client, self._submit(name=flow.name), make, story
            player = Player(
                *playing,
                fault=fault,
                expected=expected,
                patience=LONGEST if fault is None else 2 * len(expected) + MORE,
            )
            try:
                player.play()
            except Stuck as stuck:
                if fault is None:
                    raise LabError(
                        f"flow {flow.name!r}, undisturbed: {stuck}. Give it max_rounds, "
                        "or less to do"
                    ) from stuck
                return Violation(str(stuck), ours=True)
            if boundaries is not None:
                boundaries += player.boundaries
            if fault is None and story.status is not self._ends:
                return None
            # The user's check comes first, because it says more about the user's purpose.
            return fault_of_check(story, self._check) or next(
                faults_of(story, undisturbed, self._same_answer, self._heeds_stop), None
            )


def _chosen(faults: Sequence[Fault], only: str | None, limit: int | None) -> list[Fault]:
    chosen = [fault for fault in faults if only is None or only in str(fault)]
    if not chosen:
        raise LabError(
            f"no story's name contains {only!r}; the stories are "
            f"{'; '.join(map(str, faults[:12]))} and so on"
        )
    if limit is None or len(chosen) <= limit:
        return chosen
    if limit < 1:
        raise LabError(f"limit: expected a number of stories from 1, or None for all; got {limit}")
    return [chosen[index * len(chosen) // limit] for index in range(limit)]


def _differs(flow: str, how: str, otherwise: str = "") -> None:
    raise NotDeterministic(
        f"flow {flow!r} went another way when its run was repeated without a fault: {how}. "
        "Each run must pass the same boundaries: let decisions depend on nothing but the run (no "
        "clock, no randomness, no global), script the model, and create a new outside world with "
        f"world=...{otherwise}"
    )


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    """Silence Perdure's log inside the ``with`` block, because injected faults would fill it.

    Args:
        wanted: If False, the log is not silenced.
    """
    logger = logging.getLogger("perdure")
    level = logger.level
    if wanted:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
