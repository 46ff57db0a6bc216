"""A thread pool that runs a prefetched round in the thread of the round that prefetched it.

Replaces: the ``ThreadPoolExecutor`` of Celery's pool ``threads``. For a prefetched round, that
executor would wake another thread, which then waits until this thread releases the GIL.

Worth: with sixteen threads it saves a dozen thread switches a round, and a third of the worker's
CPU time (docs/internals/performance.md, ``make bench``).

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``). If prefetch is off, Celery's executor
is used.

``private_parts.worker_pool.replace_thread_executor`` replaces Celery's executor.
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
    """The calls that one thread makes one after the other.

    Attributes:
        work: The functions that are still to be called, with their arguments.
        ended: One future for all these calls. Celery does not use the futures, and a future for
            each round would cost a hundredth of a short round.
    """

    def __init__(self) -> None:
        self.work: deque[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = deque()
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()


class RoundThreadPool(ThreadPoolExecutor):
    """An executor in which a thread of the pool runs the calls that it submits itself.

    Such a call runs after the current call of the thread. Calls from other threads are executed as
    in ``ThreadPoolExecutor``.

    Args:
        most: The maximum number of threads.
        idle: Called by a thread of the pool that has no further call to run.
    """

    def __init__(self, most: int, idle: Callable[[], None] = lambda: None) -> None:
        super().__init__(most)
        self._idle = idle
        self._own = threading.local()

    def submit(self, act: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Submit a call of ``act``. If a thread of the pool submits it, the same thread runs it.

        In that case, the returned future stands for all such calls of the thread. It has no result
        and cannot be cancelled. An error of the call is logged.
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
