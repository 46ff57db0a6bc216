"""Threads: a pool of threads in which a round goes on with what its own commit brought, in its own thread.

Celery's pool of threads would wake another one for it, which then waits until this one lets go of the interpreter: for short rounds
that is a third of what they cost.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Work = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


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
        """See ThreadPoolExecutor."""
        line: deque[Work] | None = getattr(self._own, "line", None)
        if line is None:
            return super().submit(self._run, act, *args, **options)
        future: Future[Any] = Future()
        line.append((future, act, args, options))
        return future

    def _run(self, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        line = self._own.line = deque[Work]()
        try:
            return act(*args, **options)
        finally:
            while line:
                _follow(*line.popleft())
            del self._own.line
            self._idle()


def _follow(future: Future[Any], act: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(act(*args, **options))
    except BaseException as error:  # as ThreadPoolExecutor: whoever asks the future is told
        future.set_exception(error)
