"""A thread pool that runs the next, prefetched round in the thread of the round before.

Replaces: the ``ThreadPoolExecutor`` of Celery's pool ``threads``. For a prefetched round Celery's
executor would wake another thread, which then waits until this thread releases the interpreter.

Worth: with sixteen threads it saves a dozen thread switches a round, and a third of the worker's
CPU time (docs/internals/performance.md, ``make bench``).

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``). Where prefetch is off, Celery's
executor stays.

``private_parts.worker_pool.replace_thread_executor`` puts it in the place of Celery's executor.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

logger = logging.getLogger("perdure.rounds")


class ThreadQueue:
    """The pieces of work that one thread runs one after the other.

    Attributes:
        work: Functions that are still to be called, with their arguments.
        ended: One future for all this work. Celery does not use the futures, and a future for each
            round would cost a hundredth of a short round.
    """

    def __init__(self) -> None:
        self.work: deque[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = deque()
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()


class RoundThreadPool(ThreadPoolExecutor):
    """An executor whose threads run the work that they submit themselves.

    Such work runs after the thread's current work.

    Args:
        most: The maximum number of threads.
        idle: Function that a thread calls when it has nothing left to run.
    """

    def __init__(self, most: int, idle: Callable[[], None] = lambda: None) -> None:
        super().__init__(most)
        self._idle = idle
        self._own = threading.local()

    def submit(self, act: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Submit a call of ``act``. If a thread of the pool submits it, the same thread runs it.

        In that case the returned future is that of all work of the thread. It has no result and
        cannot be cancelled.
        """
        queue: ThreadQueue | None = getattr(self._own, "queue", None)
        if queue is None:
            return super().submit(self._run, act, *args, **options)
        queue.work.append((act, args, options))
        return queue.ended

    def _run(self, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        queue = self._own.queue = ThreadQueue()
        try:
            return act(*args, **options)
        finally:
            while queue.work:
                self._follow(*queue.work.popleft())
            del self._own.queue
            queue.ended.set_result(None)
            self._idle()

    @staticmethod
    def _follow(act: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        try:
            act(*args, **options)
        except BaseException:  # as in ThreadPoolExecutor, an error ends no other work
            logger.exception("%s failed after its round, and no caller waits for the error", act)
