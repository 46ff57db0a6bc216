"""Scripts: the function of a workflow while it is run, with its journal.

A ``PlainScript`` runs a plain function, which stands in the stack of its round. A ``LiveScript``
runs a coroutine, which can stand still between two rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from perdure.flows.context import RoundContext
from perdure.flows.errors import FatalError
from perdure.flows.history import forgotten_of
from perdure.flows.outcomes import Outcome
from perdure.flows.workflows.journal import MARKS, Diverged, JournalEntry
from perdure.flows.workflows.loop import ReplayLoop
from perdure.flows.workflows.requests import Request

#: Settles what a function asks for, in a round: returns entries, or the outcome of the round.
Perform = Callable[[Sequence[Request]], list[JournalEntry] | Outcome]


class Suspended(BaseException):
    """The end of a round in the middle of its function. No code may catch it and continue.

    Args:
        result: the outcome of the round, or the error with which it failed.
    """

    def __init__(self, result: Outcome | Exception) -> None:
        super().__init__("the workflow goes on in another round")
        self.result = result


class _Script:
    """The journal of a function that is being run.

    Args:
        journal: the committed entries, oldest first.
    """

    def __init__(self, context: RoundContext, journal: Sequence[JournalEntry]) -> None:
        self.context = context
        #: Where this round collects what the function notes. Each round has its own list.
        self.marks: list[JournalEntry] = []
        self._known = {entry.key: entry for entry in journal}
        #: Keys of the entries that the function has not asked for yet.
        self._left = {entry.key: None for entry in journal if entry.kind not in MARKS}
        self._order: list[str] = []
        gone = forgotten_of(context.history)
        #: Of a fork: the runs whose steps it has, each with the keys of these.
        self._origins = [
            (run_id, [entry.key for entry in journal[: max(0, turns - gone)]])
            for run_id, turns in context.origins
        ]

    def found(self, key: str) -> JournalEntry | None:
        """Return the entry of this key, or None."""
        return self._known.get(key)

    def is_replaying(self) -> bool:
        """Return whether the journal has entries that the function has not come to."""
        return bool(self._left)

    def origin(self) -> str:
        """Return the id of the run that came to this line of the function for the first time.

        It is another run before the last of the steps that a fork has taken over from it.
        """
        for run_id, keys in self._origins:
            if any(key in self._left for key in keys):
                return run_id
        return self.context.run_id

    def mark(self, entry: JournalEntry) -> None:
        """Keep an entry for the commit of this round."""
        self._known[entry.key] = entry
        self.marks.append(entry)

    def _take(self, request: Request) -> JournalEntry | None:
        """Return the committed entry for a request, or None if there is none.

        Raises:
            Diverged: the entry is of another kind.
        """
        entry = self._known.get(request.key)
        if entry is not None:
            self._left.pop(request.key, None)
            self._order.append(request.key)
            if entry.kind != request.kind:
                raise self.diverged(f"{request.key} as {request.kind}, not {entry.kind}")
        return entry

    def diverged(self, wants: str) -> Diverged:
        """Return the error for a function that asks for something else than its journal has."""
        was = [key for key, entry in self._known.items() if entry.kind not in MARKS]
        return Diverged(
            f"run {self.context.run_id}, step {self.context.step}: the workflow's function does "
            f"not do what its journal says. Its journal: {_listed(was)}. The function now: "
            f"{_listed([*self._order, wants])}. Was its code changed while the run was live? "
            "Deploy the version with which the run began, or tell the runs apart: what is new "
            "under `if steps.patched('NAME'):`, what is gone under `if not steps.patched('NAME'):`"
            ". If it was not changed: does it use the time, chance, or a file outside of a step? "
            f"Then: perdure retry {self.context.run_id}"
        )


class PlainScript(_Script):
    """A plain function.

    Args:
        perform: settles what the function asks for.
    """

    def __init__(
        self, context: RoundContext, journal: Sequence[JournalEntry], perform: Perform
    ) -> None:
        super().__init__(context, journal)
        self._perform = perform
        self.suspended: Suspended | None = None

    def ask_for(self, requests: Sequence[Request]) -> list[JournalEntry]:
        """Return the entries for what the function asks for, in order.

        Raises:
            Suspended: they are not there yet, and the round ends; or it failed.
        """
        if self.suspended is not None:  # in a `finally`, at the end of the round
            raise self.suspended
        try:
            found = self._entries(requests)
        except Exception as error:  # The function must not take it for an error of a step.
            found = error
        if isinstance(found, list):
            return found
        self.suspended = Suspended(found)
        raise self.suspended

    def _entries(self, requests: Sequence[Request]) -> list[JournalEntry] | Outcome | Exception:
        taken = [entry for each in requests if (entry := self._take(each)) is not None]
        if len(taken) == len(requests):
            return taken
        found = {entry.key: entry for entry in taken}
        while missing := [each for each in requests if each.key not in found]:
            if self._left:
                raise self.diverged(missing[0].key)
            got = self._perform(missing)
            if not isinstance(got, list):
                return got
            for entry in got:
                self._known[entry.key] = found[entry.key] = entry
        return [found[each.key] for each in requests]


class LiveScript(_Script):
    """A coroutine function, which asks for things and stands still until it has them."""

    def __init__(self, context: RoundContext, journal: Sequence[JournalEntry]) -> None:
        super().__init__(context, journal)
        self._loop = ReplayLoop()  # type: ignore[abstract]
        self._task: asyncio.Task[Any] | None = None
        self._waiting: dict[str, tuple[Request, asyncio.Future[Any]]] = {}
        self._journal = [entry for entry in journal if entry.kind not in MARKS]
        #: How many entries of the journal the coroutine has been given.
        self._given = 0
        self._closed = False
        #: Keys of what the coroutine has made and not awaited yet.
        self._expected: dict[str, None] = {}

    def begin(self, coroutine: Any) -> None:
        """Run the coroutine from its beginning, up to where its journal ends.

        Raises:
            Diverged: it does not ask for what the journal has.
        """
        self._task = self._loop.create_task(coroutine)
        self._loop.settle()
        while self._given < len(self._journal):
            entry = self._journal[self._given]
            if entry.key not in self._waiting:
                wants = next(iter(self._waiting), "its end")
                raise self.diverged(wants)
            self._given += 1
            self.resolve(entry)

    @property
    def task(self) -> asyncio.Task[Any]:
        """The task of the coroutine."""
        assert self._task is not None
        return self._task

    @property
    def pending(self) -> list[Request]:
        """What the coroutine waits for, in the order in which it asked.

        Raises:
            FatalError: it waits for something else.
        """
        if not self._waiting:
            raise FatalError(
                f"run {self.context.run_id}, step {self.context.step}: the workflow waits for "
                "something that is neither a step nor a wait of `steps`. Put it into a step"
            )
        return [request for request, _ in self._waiting.values()]

    @property
    def left_out(self) -> list[str]:
        """The keys of what the coroutine has asked for and never awaited, or not to its end."""
        unfinished = (key for key, (_, future) in self._waiting.items() if not future.done())
        return [*self._expected, *unfinished]

    def expect(self, request: Request) -> None:
        """Note that the coroutine is going to await a request."""
        self._expected[request.key] = None

    def ask_for(self, requests: Sequence[Request]) -> asyncio.Future[Any]:
        """Return the future of what the coroutine asks for: one request."""
        if self._closed:
            raise asyncio.CancelledError  # in a `finally`, at the end of the round
        [request] = requests
        self._expected.pop(request.key, None)
        future = self._loop.create_future()
        if (entry := self._next_of_a_line(request)) is None:
            self._waiting[request.key] = (request, future)
        else:
            self._given += 1
            self._take(request)
            _put(future, entry)
        return future

    def _next_of_a_line(self, request: Request) -> JournalEntry | None:
        """Return the entry for a request if it can be given at once, without standing still.

        So it is where the coroutine does one thing after the other: it waits for nothing else,
        nothing else is ready to run, and the journal has this entry next.
        """
        if self._given == len(self._journal) or self._waiting or not self._loop.is_idle():
            return None
        entry = self._journal[self._given]
        return entry if (entry.key, entry.kind) == (request.key, request.kind) else None

    def resolve(self, entry: JournalEntry) -> None:
        """Return to the coroutine what it has asked for, and run it until it stands still."""
        request, future = self._waiting.pop(entry.key)
        if self._take(request) is None:
            self._known[entry.key] = entry
        if not future.done():
            _put(future, entry)
        self._loop.settle()

    def close(self) -> bool:
        """End the coroutine, wherever it stands. Return whether it let itself be ended."""
        self._closed = True
        ends = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._loop.settle()
            ends = self._task.cancelled()
        self._loop.close()
        return ends


def _put(future: asyncio.Future[Any], entry: JournalEntry) -> None:
    """Set a future to the result or the error of an entry."""
    if entry.error is None:
        future.set_result(entry.unpack())
        return
    try:
        entry.unpack()
    except Exception as error:
        future.set_exception(error)


def _listed(keys: Sequence[str]) -> str:
    """Return the newest of some keys, in order."""
    most = 12
    before = "..., " if len(keys) > most else ""
    return before + (", ".join(keys[-most:]) or "nothing")
