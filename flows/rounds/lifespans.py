"""Lifespans: resources of a flow's rounds, opened once in a process and closed at its end.

An example is a connection pool or a client. The first round of the flow in a process opens the
resource, and the end of the process closes it. All rounds of the process share it as
``context.deps``.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Generic, Protocol, TypeVar, overload
from weakref import WeakSet

from perdure.flows.core.errors import (
    FatalError,
    InvalidFlow,
    RetryableError,
    described,
    formattable,
)
from perdure.flows.core.event_loop import event_loop, submit
from perdure.flows.core.names import Names
from perdure.flows.core.summaries import safe_text

logger = logging.getLogger("perdure.flow")

D = TypeVar("D")
#: A function that describes a lifespan: a generator with one ``yield``, or a function that returns
#: a context manager. Both may be asynchronous.
Maker = (
    Callable[[], AsyncIterator[D]]
    | Callable[[], Iterator[D]]
    | Callable[[], AbstractAsyncContextManager[D]]
    | Callable[[], AbstractContextManager[D]]
)

#: Seconds that closing one lifespan may take at the end of a process.
CLOSING_SECONDS = 10.0

#: The lifespans with a name, for flows written in YAML.
registered_lifespans: Names[Lifespan[Any]] = Names("lifespan")


class LifespanFailed(RetryableError):
    """Raised when the lifespan of a round could not be opened in this process.

    The round's node did not run. The round is tried again, in this process or on another worker,
    according to its retry policy. After the last attempt the run ends errored.
    """

    code = "lifespan-failed"


class _Opened(Protocol):
    """The opened resource of a lifespan, with its value and a way to close it."""

    value: Any

    def close(self) -> None: ...


class _OpenedHere:
    def __init__(self, manager: AbstractContextManager[Any]) -> None:
        self._manager = manager
        self.value = manager.__enter__()

    def close(self) -> None:
        self._manager.__exit__(None, None, None)


class _OpenedOnLoop:
    """An asynchronous context manager that one asyncio task opens and closes.

    The task runs on the event loop of the process. Libraries with cancel scopes require that the
    same task does both.
    """

    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self._closing = asyncio.Event()
        opened: Future[Any] = Future()
        self._task = submit(self._hold(manager, opened))
        self._task.add_done_callback(lambda done: _fail(opened, done))
        try:
            self.value = opened.result()
        except BaseException:
            self._task.cancel()
            raise

    async def _hold(self, manager: AbstractAsyncContextManager[Any], opened: Future[Any]) -> None:
        async with manager as value:
            opened.set_result(value)
            await self._closing.wait()

    def close(self) -> None:
        event_loop().call_soon_threadsafe(self._closing.set)
        self._task.result(CLOSING_SECONDS)


def _fail(opened: Future[Any], task: Future[None]) -> None:
    """Fail the future ``opened`` if its task ended before the resource was open.

    The future gets the exception of the task, or a RuntimeError if the task was cancelled.
    """
    if not opened.done():
        error = None if task.cancelled() else task.exception()
        opened.set_exception(error or RuntimeError("it was cancelled while it was opened"))


class Lifespan(Generic[D]):
    """A resource that the rounds of a flow share in a process. ``@lifespan`` makes one.

    Args:
        make: see ``lifespan``.
        name: for error texts, and for flows written in YAML.
    """

    def __init__(self, make: Maker[D], name: str) -> None:
        self.name = name
        self.__module__ = str(getattr(make, "__module__", ""))
        self.__qualname__ = str(getattr(make, "__qualname__", name))
        self._make = make
        self._lock = threading.RLock()
        self._opened: _Opened | None = None
        self._replacements: list[D] = []
        _all.add(self)

    def open(self) -> D:
        """Return the value of this lifespan. The first call in a process opens it.

        Raises:
            LifespanFailed: the lifespan cannot be opened. The next call tries again.
            InvalidFlow: the lifespan's function returns no context manager.
            FatalError, RetryableError: the lifespan's function raised it. FatalError means that no
                retry helps.
        """
        if self._replacements:
            return self._replacements[-1]
        opened = self._opened
        if opened is None:
            with self._lock:
                if self._opened is None:
                    self._opened = self._open()
                    _open_ones.append(self)
                opened = self._opened
        value: D = opened.value
        return value

    def close(self) -> None:
        """Close this lifespan in this process, if open. The next ``open`` opens it again.

        Raises:
            Exception: whatever the lifespan's function raises after its ``yield``.
        """
        with self._lock:
            opened, self._opened = self._opened, None
            if opened is not None:
                _open_ones.remove(self)
                opened.close()

    @contextmanager
    def replaced(self, value: D) -> Iterator[D]:
        """Make ``open`` return ``value`` inside the ``with`` block. This is for tests."""
        self._replacements.append(value)
        try:
            yield value
        finally:
            self._replacements.remove(value)

    def _open(self) -> _Opened:
        try:
            manager = self._manager()
            if isinstance(manager, AbstractAsyncContextManager):
                return _OpenedOnLoop(manager)
            return _OpenedHere(manager)
        except (FatalError, InvalidFlow, RetryableError):
            raise
        except Exception as error:
            raise LifespanFailed(
                f"the lifespan {self.name!r} could not be opened on {_here()}: "
                f"{safe_text(described(error), 2000)}"
            ) from error

    def _manager(self) -> AbstractContextManager[Any] | AbstractAsyncContextManager[Any]:
        make: Any = self._make
        if inspect.isasyncgenfunction(make):
            return asynccontextmanager(make)()
        if inspect.isgeneratorfunction(make):
            return contextmanager(make)()
        manager = make()
        if isinstance(manager, AbstractContextManager | AbstractAsyncContextManager):
            return manager
        raise InvalidFlow(
            f"the lifespan {self.name!r} returned a {type(manager).__name__}; expected a function "
            "with one yield, or a context manager"
        )


#: All lifespans, and the open ones of this process, in the order of their opening.
_all: WeakSet[Lifespan[Any]] = WeakSet()
_open_ones: list[Lifespan[Any]] = []


def close_lifespans() -> None:
    """Close the open lifespans of this process, newest first.

    If one of them raises an exception, it is logged, and the others are closed anyway.
    """
    for each in reversed(list(_open_ones)):
        try:
            each.close()
        except Exception as error:
            logger.error(
                "the lifespan %r could not be closed: %s",
                each.name,
                described(error),
                exc_info=formattable(error),
            )


def _forget_parent() -> None:
    """Forget the lifespans that the parent process opened, without closing them.

    A forked process calls this at its beginning, so that it opens its own.
    """
    _open_ones.clear()
    for each in _all:
        each._opened, each._lock = None, threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
atexit.register(close_lifespans)


def _here() -> str:
    return f"process {os.getpid()}"


@overload
def lifespan(make: Callable[[], AsyncIterator[D]], /) -> Lifespan[D]: ...
@overload
def lifespan(make: Callable[[], Iterator[D]], /) -> Lifespan[D]: ...
@overload
def lifespan(make: Callable[[], AbstractAsyncContextManager[D]], /) -> Lifespan[D]: ...
@overload
def lifespan(make: Callable[[], AbstractContextManager[D]], /) -> Lifespan[D]: ...
@overload
def lifespan(*, name: str) -> Callable[[Maker[D]], Lifespan[D]]: ...
def lifespan(make: Any = None, /, *, name: str | None = None) -> Any:
    """Make a lifespan: a resource that rounds share in a worker process, such as a connection pool.

    The function opens the resource, yields it, and closes it behind its ``yield``. It may be an
    ``async def`` with ``yield``, or return a context manager. Set the result as ``lifespan``
    of a flow: its rounds get the yielded value as ``context.deps``.

    The first round of the flow in a process opens it. The end of the worker closes it, unless the
    process is killed. If it cannot be opened, the round is tried again, as after any error.

    Args:
        name: registers the lifespan under this name, for flows written in YAML.

    Raises:
        InvalidFlow: the name is not valid, or taken.
    """
    if make is not None:
        return Lifespan(make, str(getattr(make, "__name__", "lifespan")))
    assert name is not None

    def register(function: Any) -> Lifespan[Any]:
        made: Lifespan[Any] = Lifespan(function, name)
        registered_lifespans.keep(name, made)
        return made

    return register
