"""Celery's worker pools: the executor of the pool of threads, and half-read results of children.

Private parts used: ``thread.TaskPool.executor``, which is not documented;
``prefork.TaskPool._pool`` and ``AsynPool._fileno_to_outq``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

logger = logging.getLogger("perdure.processes")


class PartialResults:
    """The results of child processes that a worker has read in part when its event loop is reset.

    A child process writes each result to a pipe. The event loop (kombu's Hub) reads a result with a
    generator, which waits between the parts of the result. On a lost connection, Celery 5.7 resets
    the event loop, and the generator is lost. The next generator takes the middle of the result for
    the beginning of another result, and the worker ends with an UnpicklingError, or hangs. This
    class keeps the generators, so that they read the rest of their results.
    """

    def __init__(self, hub: Any, pool: Any) -> None:
        """Replace the ``reset`` of the event loop by a method that keeps partly read results.

        Args:
            hub: The event loop of the worker.
            pool: Celery's prefork pool.
        """
        self._hub = hub
        #: The processes by the descriptor of their pipe for results.
        self._processes: Mapping[int, Any] = pool._pool._fileno_to_outq
        self._kept: list[tuple[int, Any, Generator[None, None, None]]] = []
        self._reset = hub.reset
        hub.reset = self._reset_and_keep

    def _reset_and_keep(self) -> None:
        self._kept = [
            (pipe, self._processes.get(pipe), reader[0])
            for pipe, reader in self._hub.readers.items()
            if reader is not None and isinstance(reader[0], Generator)
        ]
        self._reset()
        self._read_on()  # for a worker that ends without another event loop

    def restore(self) -> None:
        """Read the rest of the results that were partly read when the event loop was reset.

        The pool must have registered its pipes with the event loop before. Results of processes
        that have ended since then are not read.
        """
        if self._kept:
            logger.info("results of child processes that are read on: %d", len(self._kept))
            self._hub.call_soon(self._read_on)

    def _read_on(self) -> None:
        for pipe, process, reader in self._kept:
            # A process that has died in between is gone from the pool, and its pipe is closed.
            if process is not None and self._processes.get(pipe) is process:
                self._hub.add_reader(pipe, reader)


def replace_thread_executor(pool: Any, make: Callable[[], ThreadPoolExecutor]) -> None:
    """Replace the executor of Celery's thread pool by the result of ``make``.

    The pool must not have threads yet. Nothing happens if the pool is not a thread pool, or if its
    executor was not made by Celery.
    """
    if type(getattr(pool, "executor", None)) is ThreadPoolExecutor:
        pool.executor.shutdown()
        pool.executor = make()
