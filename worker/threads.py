"""Threads: a pool of threads in which a round goes on with what its own commit brought, in its own thread.

Celery's pool of threads would wake another one for it, which then waits until this one lets go of the interpreter: for short rounds
that is a third of what they cost.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

logger = logging.getLogger("holdfast.rounds")


class Line:
    """What one thread runs, one after the other, until nothing follows.

    Attributes:
        work: what follows.
        ended: the future of all of it. Celery asks for none, and one for each would take a hundredth of a short round.
    """

    def __init__(self) -> None:
        self.work: deque[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = deque()
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()


class Threads(ThreadPoolExecutor):
    """So many threads at most; what is submitted from one of them runs there, as soon as what it runs has ended.

    Args:
        idle: called by a thread that has nothing left to run.
    """

    def __init__(self, most: int, idle: Callable[[], None] = lambda: None) -> None:
        super().__init__(most)
        self._idle = idle
        self._own = threading.local()

    def submit(self, act: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """See ThreadPoolExecutor. From one of the threads: the future of all that it runs, without a result, and not to be cancelled."""
        line: Line | None = getattr(self._own, "line", None)
        if line is None:
            return super().submit(self._run, act, *args, **options)
        line.work.append((act, args, options))
        return line.ended

    def _run(self, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        line = self._own.line = Line()
        try:
            return act(*args, **options)
        finally:
            while line.work:
                self._follow(*line.work.popleft())
            del self._own.line
            line.ended.set_result(None)
            self._idle()

    @staticmethod
    def _follow(act: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        try:
            act(*args, **options)
        except BaseException:  # as ThreadPoolExecutor: what one raises ends no other. Celery's tasks raise nothing here
            logger.exception("%s ended with an error that nobody waits for", act)
