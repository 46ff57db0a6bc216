"""Sleepers: worker processes that stand still at a point while others go on, and then wake and know
nothing of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.crash.points.faults import PAUSES_AFTER, PAUSES_BEFORE

if TYPE_CHECKING:
    from tests.crash.points.process import WorkerProcess
    from tests.crash.points.story import Story

#: No worker meets more points than this before it returns: only a worker that is to stand still
#: needs a thread.
LONGEST_ACT = 200


@dataclass
class Sleeper:
    """A suspended worker, and the run's place at that time."""

    worker: WorkerProcess
    where: Any
    woken: threading.Event = field(default_factory=threading.Event)


class Sleepers:
    """Only one process moves at any time: a process that starts or wakes another waits until that
    one is done or stands still.
    """

    def __init__(self, story: Story, wakes: str) -> None:
        self._story = story
        self._wakes = wakes
        self._pauses = [
            fault for fault in story.faults if fault.kind in (PAUSES_BEFORE, PAUSES_AFTER)
        ]
        self.asleep: list[Sleeper] = []
        self._baton = threading.Event()
        self._failure: BaseException | None = None
        #: How many stood still, and have woken.
        self.slept = self.woke = 0

    def start(self, acts: Callable[[], None]) -> None:
        """Start acts of a worker, and wait until they are done or the worker stands still."""
        met = len(self._story.wire.trace)
        if not any(met <= fault.at < met + LONGEST_ACT for fault in self._pauses):
            acts()
            return

        def run() -> None:
            try:
                acts()
            except BaseException as error:
                self._failure = error
            finally:
                self._baton.set()

        self._hand_over(threading.Thread(target=run, name="perdure-story", daemon=True).start)

    def sleep(self) -> None:
        """Stop the acting worker here until it is woken."""
        story = self._story
        sleeper = Sleeper(story.wire.actor, self._where())
        self.slept += 1
        self.asleep.append(sleeper)
        story.workers.remove(sleeper.worker)
        self._baton.set()
        sleeper.woken.wait()

    def in_a_round(self) -> None:
        """Wake the other workers if this is their moment: in the middle of a round."""
        if self._wakes == "between":
            self.wake_all()
        elif self._wakes == "a round on":
            self.wake_those_left_behind()

    def wake_those_left_behind(self) -> None:
        """Wake the workers without whom the run has gone on."""
        for sleeper in list(self.asleep):
            if self._where() != sleeper.where:
                self._wake(sleeper)

    def wake_all(self) -> bool:
        """Wake every one; whether there was any."""
        sleepers = list(self.asleep)
        for sleeper in sleepers:
            self._wake(sleeper)
        return bool(sleepers)

    def _wake(self, sleeper: Sleeper) -> None:
        self.asleep.remove(sleeper)
        self.woke += 1
        self._story.workers.append(sleeper.worker)  # it lives, and takes the next message too
        self._hand_over(sleeper.woken.set, sleeper.worker)

    def _hand_over(self, start: Callable[[], None], actor: Any = None) -> None:
        wire = self._story.wire
        mine, self._baton, me = self._baton, threading.Event(), wire.actor
        wire.actor = actor
        start()
        self._baton.wait()
        self._baton, wire.actor = mine, me
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _where(self) -> Any:
        """Return epoch, step and end of the run, which change when others play it on."""
        phase, *where = self._story.look()[1]
        return where, phase == "completed"
