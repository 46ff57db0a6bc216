"""LiveScript: the coroutine function of a workflow while it is run, with its journal.

The coroutine can stay suspended between two rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from perdure.flows.core.errors import FatalError
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.journal import MARKS, Diverged, JournalEntry, settle_future
from perdure.flows.workflows.loop import ReplayLoop, is_unbegun
from perdure.flows.workflows.requests import Request
from perdure.flows.workflows.scripts import BaseScript


class LiveScript(BaseScript):
    """A coroutine function while it is run. It is suspended until its requests have results."""

    def __init__(
        self, context: RoundContext, journal: Sequence[JournalEntry], strict: bool = False
    ) -> None:
        super().__init__(context, journal, strict)
        self._loop = ReplayLoop()  # type: ignore[abstract]
        self._task: asyncio.Task[Any] | None = None
        self._waiting: dict[str, tuple[Request, asyncio.Future[Any]]] = {}
        self._journal = [entry for entry in journal if entry.kind not in MARKS]
        #: How many entries of the journal the coroutine has been given.
        self._given = 0
        self._closed = False
        #: Steps and waits that the coroutine has made and not awaited yet, by key.
        self._expected: dict[str, Coroutine[Any, Any, Any]] = {}

    def begin(self, coroutine: Any) -> None:
        """Run the coroutine from its beginning, through its journal.

        Raises:
            Diverged: its requests differ from the journal.
        """
        self._task = self._loop.create_task(coroutine)
        self._loop.settle()
        while self._given < len(self._journal):
            self.check()
            entry = self._journal[self._given]
            if entry.key not in self._waiting:
                wants = next(iter(self._waiting), "its end")
                raise self.diverged(wants)
            self._given += 1
            self.resolve(entry)

    def check(self) -> None:
        """Raise Diverged if the coroutine departs from its journal."""
        if self._divergence is not None:
            raise self._divergence

    def check_open(self, what: str) -> None:
        """Raise an exception unless the coroutine may request ``what`` now.

        Raises:
            FatalError: ``what`` is not requested within the coroutine's event loop.
            CancelledError: the end of the round unwinds the coroutine (``finally``), or the
                coroutine departs from its journal, and the round raises that (``check``).
        """
        if not self._loop.is_running():
            raise self._of_another_thread(what)
        if self._closed or self._divergence is not None:
            raise asyncio.CancelledError

    @property
    def task(self) -> asyncio.Task[Any]:
        """The task of the coroutine."""
        assert self._task is not None
        return self._task

    @property
    def pending(self) -> list[Request]:
        """The pending requests of the coroutine, in the order of asking.

        Raises:
            Diverged: the coroutine departs from its journal.
            FatalError: the coroutine waits for something that is not a request.
        """
        self.check()
        # A task that was cancelled before its step began does not want the step any more.
        wanted = [request for request, future in self._waiting.values() if not future.done()]
        if not wanted:
            raise FatalError(
                f"run {self.context.run_id}, step {self.context.step}: the workflow waits for "
                "something that is neither a step nor a wait of `steps`. Put it into a step"
            )
        self.check_new(each for each in wanted if each.key not in self.known)
        return wanted

    @property
    def left_out(self) -> list[str]:
        """The keys of requests that the coroutine has not awaited, and not cancelled.

        A coroutine may end while tasks go on that it has awaited: after the first error of
        ``asyncio.gather``, or the first result of ``asyncio.wait``.
        """
        unbegun = [key for key, each in self._expected.items() if is_unbegun(each)]
        if not self._loop.has_forgotten_tasks(self.task):
            return unbegun
        return [*unbegun, *(key for key, (_, each) in self._waiting.items() if not each.done())]

    def expect(self, request: Request, awaited: Coroutine[Any, Any, Any]) -> None:
        """Note that the coroutine must await ``awaited``, which stands for a request."""
        self._expected[request.key] = awaited

    def ask_for(self, requests: Sequence[Request]) -> asyncio.Future[Any]:
        """Return the future of a request. ``requests`` contains this request only."""
        if self._closed:
            raise asyncio.CancelledError  # It was requested before the round ended.
        [request] = requests
        self._expected.pop(request.key, None)
        future = self._loop.create_future()
        if self._divergence is not None or (entry := self._next_of_a_line(request)) is None:
            self._waiting[request.key] = (request, future)
            return future
        self._given += 1
        try:
            self._take(request)
        except Diverged:  # The coroutine could catch it. The round raises it (`check`).
            return future
        settle_future(future, entry)
        return future

    def _next_of_a_line(self, request: Request) -> JournalEntry | None:
        """Return the entry for a request if the coroutine need not be suspended for it, else None.

        It is returned if the coroutine waits for nothing else, no other callback is ready, and the
        entry is the next one of the journal.
        """
        if self._given == len(self._journal) or self._waiting or not self._loop.is_idle():
            return None
        entry = self._journal[self._given]
        return entry if (entry.key, entry.kind) == (request.key, request.kind) else None

    def is_pending(self, key: str) -> bool:
        """Return whether the coroutine waits for this entry: it will be the result of a request."""
        return key in self._waiting

    def resolve(self, entry: JournalEntry) -> None:
        """Give the coroutine the result in ``entry``, and run it until it ends or waits again."""
        request, future = self._waiting.pop(entry.key)
        if self._take(request) is None:
            self.known[entry.key] = entry
        if not future.done():
            settle_future(future, entry)
        self._loop.settle()

    def close(self) -> bool:
        """Cancel the coroutine and its tasks. Return False if it caught the cancellation."""
        self._closed = True
        for awaited in self._expected.values():
            awaited.close()  # The round reports requests never awaited. Python need not warn.
        ends = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._loop.settle()
            ends = self._task.cancelled()
        self._loop.close()
        return ends
