"""The event loop of a workflow's coroutine. It runs the ready callbacks and then stops.

The coroutine is run again from its beginning, and must make the same requests each time. So it has
an event loop of its own: callbacks run in the order of their creation, nothing comes from outside,
and no time passes. Temporal's Python SDK runs its workflows in this way.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import Context
from typing import Any, NoReturn
from weakref import WeakSet

from perdure.flows.core.errors import FatalError


class _NumberedFuture(asyncio.Future[Any]):
    """A future whose hash is its number. A set of such futures has the same order each time."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number. A set of such tasks has the same order each time.

    Attributes:
        is_awaited: whether the task was ever awaited: by ``await``, ``asyncio.gather``,
            ``asyncio.wait``, a ``TaskGroup`` and the like.
    """

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number, self.is_awaited = number, False
        super().__init__(coro, **options)

    def add_done_callback(
        self, callback: Callable[..., object], *, context: Context | None = None
    ) -> None:
        """Call ``callback`` when the task is done.

        asyncio calls this when a task is awaited, and the task then counts as awaited.
        """
        # A callback of the user's own, such as `tasks.discard`, awaits nothing.
        waiter = getattr(callback, "__self__", None)
        module = getattr(callback, "__module__", None) or ""
        self.is_awaited |= isinstance(waiter, asyncio.Task) or module.startswith("asyncio.")
        super().add_done_callback(callback, context=context)

    def __hash__(self) -> int:
        return self._number


class ReplayLoop(asyncio.AbstractEventLoop):
    """An event loop without sockets, threads and timers."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._closed = False
        #: How many futures and tasks the loop has made.
        self._made = 0
        self._tasks: WeakSet[_NumberedTask] = WeakSet()

    def settle(self) -> None:
        """Run ready callbacks until none is left."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            events._set_running_loop(before)

    def is_idle(self) -> bool:
        """Return whether no callback is ready besides the running one."""
        return not self._ready

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback after all that are ready now."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        self._made += 1
        return _NumberedFuture(self._made, loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        """Return a task of this loop for a coroutine."""
        self._made += 1
        options |= {"loop": self, "name": name, "context": context}
        task = _NumberedTask(self._made, coro, **options)
        self._tasks.add(task)
        return task

    def has_forgotten_tasks(self, first: asyncio.Task[Any]) -> bool:
        """Return whether an unfinished task was never awaited. ``first`` is not considered."""
        return any(
            not (task.done() or task.is_awaited or task is first) for task in list(self._tasks)
        )

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        """Ignore the report of a dropped task: its round is over."""

    def get_task_factory(self) -> None:
        """Return None: tasks are ``asyncio.Task``."""

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def is_running(self) -> bool:
        """Return whether the loop runs callbacks now."""
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        """Return whether the loop was closed."""
        return self._closed

    def close(self) -> None:
        """Cancel the unfinished tasks, as ``asyncio.run`` does. Close the loop."""
        for task in sorted(self._tasks, key=hash):
            task.cancel()
        self.settle()
        self._closed = True
        self._ready.clear()

    def time(self) -> float:
        """Return 0: no time passes."""
        return 0.0

    def call_later(self, *args: Any, **named: Any) -> NoReturn:  # type: ignore[override]
        """Raise FatalError: only ``steps.sleep`` lets time pass."""
        raise FatalError(
            "a workflow cannot wait with asyncio.sleep, asyncio.timeout or asyncio.wait_for, which "
            "would hold a worker, and start anew with each round. Use `await steps.sleep(...)`, or "
            "the timeout of `steps.wait_for`, `steps.child` or of a step"
        )

    call_at = call_later  # type: ignore[assignment]

    def run_in_executor(self, *args: Any, **named: Any) -> NoReturn:  # type: ignore[override]
        """Raise FatalError: code that needs a thread belongs into a step."""
        raise FatalError(
            "a workflow cannot use threads, sockets or processes by itself. Put what needs them "
            "into a step: `await steps.step(function)`"
        )

    call_soon_threadsafe = run_in_executor  # type: ignore[assignment]
    create_connection = run_in_executor
    getaddrinfo = run_in_executor
    subprocess_exec = run_in_executor
    subprocess_shell = run_in_executor


_as_completed = asyncio.as_completed


@functools.wraps(_as_completed)
def _in_given_order(fs: Iterable[Any], **options: Any) -> Any:
    """Call ``asyncio.as_completed``. In a workflow, create the tasks in the order of ``fs``.

    ``asyncio`` itself puts the coroutines into a set, whose order differs between processes.
    """
    if isinstance(events._get_running_loop(), ReplayLoop):
        fs = [asyncio.ensure_future(each) for each in fs]
    return _as_completed(fs, **options)


asyncio.as_completed = asyncio.tasks.as_completed = _in_given_order


def is_unbegun(coroutine: Coroutine[Any, Any, Any]) -> bool:
    """Return whether a coroutine was neither awaited nor cancelled."""
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
