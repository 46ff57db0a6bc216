"""Scripts: the function of a workflow while it is run, with its journal.

A ``PlainScript`` runs a plain function, which ends with its round. A ``LiveScript``
(``live_script.py``) runs a coroutine, which can stay suspended between two rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from threading import get_ident

from perdure.flows.core.errors import FatalError
from perdure.flows.core.history import forgotten_of
from perdure.flows.core.outcomes import Outcome
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.arguments import INCOMPARABLE
from perdure.flows.workflows.begun import Begun
from perdure.flows.workflows.journal import (
    MARKS,
    REFUSED,
    Diverged,
    JournalEntry,
    Kind,
    any_order_digest,
    listed,
    name_of,
    ordered_digest,
)
from perdure.flows.workflows.requests import Request

#: Digests that are not compared.
UNCOMPARED = frozenset({"", INCOMPARABLE})
#: Carries out a function's requests. Returns their entries, or the outcome that ends the round.
Perform = Callable[[Sequence[Request]], list[JournalEntry] | Outcome]


class Suspended(BaseException):
    """Raised inside a workflow's function to end its round. No code may catch it and continue.

    Args:
        result: the outcome of the round, or the exception with which it ended.
    """

    def __init__(self, result: Outcome | BaseException) -> None:
        super().__init__("the workflow goes on in another round")
        self.result = result


class BaseScript:
    """The journal of a function that is being run.

    Args:
        journal: the committed entries, oldest first.
        strict: whether arguments that differ from the journal's are an error.

    Attributes:
        known: the entries of the journal and of this round, by key.
        changed: keys of entries whose step now has other arguments than the journal.
    """

    def __init__(
        self, context: RoundContext, journal: Sequence[JournalEntry], strict: bool = False
    ) -> None:
        self.context, self._strict = context, strict
        self.changed: list[str] = []
        #: The first error that shows the function departing from its journal.
        self._divergence: Diverged | None = None
        #: By name and digest, the entries of steps whose arguments differ now.
        self._suspects: dict[tuple[str, str], str] = {}
        self._journal = journal
        #: The marks of the function in this round. Each round has its own list.
        self.marks: list[JournalEntry] = []
        #: Begun requests that the function has not come to yet. Each round has its own.
        self.begun: Mapping[str, Begun] = {}
        self.known = {entry.key: entry for entry in journal}
        #: Keys of the entries that the function has not asked for yet.
        self._left = {entry.key: None for entry in journal if entry.kind not in MARKS}
        self._order: list[str] = []
        gone = forgotten_of(context.history)
        # Earlier releases drew the same numbers again after a restart. A run that began so goes on.
        self._generation = f" {gone}" if gone and (not journal or journal[0].of) else ""
        #: For a fork: the ids of the runs whose steps it has copied, with the keys of these steps.
        self._origins = [
            (run_id, [entry.key for entry in journal[: max(0, turns - gone)]])
            for run_id, turns in context.origins
        ]

    @cached_property
    def _digests(self) -> set[tuple[str, str]]:
        """The names and argument digests of the journal's entries. Few functions need them."""
        return {
            (name_of(entry.key), ordered_digest(entry.of)) for entry in self._journal if entry.of
        }

    def is_replaying(self) -> bool:
        """Return whether the function has not yet reached the point where the run is.

        The journal has entries that the function has not requested yet, or the round has begun
        requests that the function has not made yet.
        """
        # Workers of older releases left no kind. The run may have passed this line with them.
        return bool(self._left) or any(each.kind for each in self.begun.values())

    def has_entries_left(self) -> bool:
        """Return whether the journal has entries that the function has not requested yet."""
        return bool(self._left)

    def place_ahead(self, kind: Kind, name: str, of: str) -> int | None:
        """Return the place of the first matching entry that the function has not requested yet.

        Args:
            name: the entry's key without its number.
            of: the digest of the arguments.

        Returns:
            The place, counted from 0 at the first entry that the function has not received yet. A
            step that the round has begun comes after all entries. None if none matches.
        """
        for place, key in enumerate(self._left):
            entry = self.known[key]
            found = entry.kind, name_of(key), entry.of
            if found == (kind, name, of) and not self.is_pending(key):
                return place
        # Begun requests come behind the journal's entries.
        begun = {(each.kind, name_of(each.key), each.of) for each in self.begun.values()}
        return len(self._left) if kind == "step" and (kind, name, of) in begun else None

    def is_pending(self, key: str) -> bool:
        """Return whether the function waits for this entry: it will be the result of a request."""
        return False

    def seed(self) -> str:
        """Return the random seed for the place that the function has reached.

        It is the id of the run that first reached the place. In a fork, this is another run until
        the last of the copied steps is read. After a restart, a number follows the id.
        """
        for run_id, keys in self._origins:
            if any(key in self._left for key in keys):
                return f"{run_id}{self._generation}"
        return f"{self.context.run_id}{self._generation}"

    def check_open(self, what: str) -> None:
        """Raise an exception unless the function may request ``what`` now.

        Raises:
            FatalError: ``what`` is requested in another thread than the function's own.
            Suspended, CancelledError: the end of the round unwinds the function (``finally``).
        """
        raise NotImplementedError

    def _of_another_thread(self, what: str) -> FatalError:
        return FatalError(
            f"run {self.context.run_id}, step {self.context.step}: {what!r} is asked of the "
            "workflow's steps in another thread. Threads ask in an order that is another one "
            "each time. Use steps.gather, or asyncio.gather in a coroutine function"
        )

    def mark(self, entry: JournalEntry) -> None:
        """Add an entry that the commit of this round appends to the journal."""
        entry = replace(entry, of=entry.of or INCOMPARABLE)
        self.known[entry.key] = entry
        self.marks.append(entry)

    def drop_last_refusals(self) -> None:
        """Drop this round's marks of refused topics that come after the last result.

        The function has failed. A retry of the run by a person asks for these topics again.
        """
        last = takewhile(lambda entry: entry.kind in MARKS, reversed(self.known.values()))
        dropped = {entry.key for entry in last if entry.key.startswith(REFUSED)}
        self.marks[:] = [entry for entry in self.marks if entry.key not in dropped]

    def _take(self, request: Request) -> JournalEntry | None:
        """Return the journal's entry for a request, or None.

        Raises:
            Diverged: the entry is of another kind, or has arguments that the request must not have.
        """
        entry = self.known.get(request.key)
        if entry is not None:
            self._left.pop(request.key, None)
            self._order.append(request.key)
            if entry.kind != request.kind:
                raise self.diverged(f"{request.key} as {request.kind}, not {entry.kind}")
            if request.of != entry.of and not {request.of, entry.of} & UNCOMPARED:
                self._note_other_arguments(request, entry)
        return entry

    def _note_other_arguments(self, request: Request, entry: JournalEntry) -> None:
        """Note that a step's arguments differ from its journal entry.

        Raises:
            Diverged: another entry has the request's arguments, the workflow is strict, or a map
                has the items of its entry in another order.
        """
        name, of = name_of(request.key), ordered_digest(request.of)
        if any_order_digest(request.of) == any_order_digest(entry.of) != "":
            raise self.diverged(f"{request.key} with the items of its journal in another order")
        if self._strict or (name, of) in self._digests:
            whose = "other arguments" if self._strict else f"the arguments of another {name}"
            raise self.diverged(f"{request.key} with {whose}")
        self._suspects[name, ordered_digest(entry.of)] = request.key
        self.changed.append(request.key)

    def check_new(self, requests: Iterable[Request]) -> None:
        """Raise Diverged if a new step has the arguments of an entry that went to another step.

        The result of that entry belongs to the new step.
        """
        for each in requests if self._suspects else ():
            name, of = name_of(each.key), ordered_digest(each.of)
            if (key := self._suspects.get((name, of))) is not None:
                raise self.diverged(f"{each.key} with the arguments with which {key} was done")

    def diverged(self, wants: str) -> Diverged:
        """Return the error for a request that the journal does not have next.

        Args:
            wants: what the function requests, for the message.
        """
        if self._divergence is not None:
            return self._divergence  # Errors that follow from it would hide the cause.
        was = [key for key, entry in self.known.items() if entry.kind not in MARKS]
        self._divergence = Diverged(
            f"run {self.context.run_id}, step {self.context.step}: the workflow's function does "
            f"not do what its journal says. Its journal: {listed(was)}. The function now: "
            f"{listed([*self._order, wants])}. Was its code changed while the run was live? "
            "Deploy the version with which the run began, or tell the runs apart: what is new "
            "under `if steps.patched('NAME'):`, what is gone under `if not steps.patched('NAME'):`"
            ". If it was not changed: does it use the time, chance, or a file outside of a step?"
        )
        return self._divergence


class PlainScript(BaseScript):
    """A plain function while it is run.

    Args:
        perform: carries out the function's requests.
    """

    def __init__(
        self,
        context: RoundContext,
        journal: Sequence[JournalEntry],
        perform: Perform,
        strict: bool = False,
    ) -> None:
        super().__init__(context, journal, strict)
        self._perform = perform
        self._thread = get_ident()
        self.suspended: Suspended | None = None

    def check_open(self, what: str) -> None:
        """Raise an exception unless the function may request ``what`` now.

        Raises:
            FatalError: ``what`` is requested in another thread than the function's own.
            Suspended: the end of the round unwinds the function (``finally``).
        """
        if get_ident() != self._thread:
            raise self._of_another_thread(what)
        if self.suspended is not None:
            raise self.suspended

    def ask_for(self, requests: Sequence[Request]) -> list[JournalEntry]:
        """Return the entries for the function's requests, in order.

        Raises:
            Suspended: the round ends, because entries are not available yet, or because it failed.
        """
        try:
            found = self._entries(requests)
        except BaseException as error:  # The function must not take it for an error of a step.
            found = error
        if isinstance(found, list):
            return found
        self.suspended = Suspended(found)
        raise self.suspended

    def entry_of(self, request: Request) -> JournalEntry:
        """Return the entry for one request, as ``ask_for`` does.

        A function asks for all its finished steps in each round, so this is short.
        """
        try:
            entry = self._take(request)
        except BaseException as error:
            self.suspended = Suspended(error)
            raise self.suspended from None
        return self.ask_for([request])[0] if entry is None else entry

    def _entries(self, requests: Sequence[Request]) -> list[JournalEntry] | Outcome | BaseException:
        taken = [entry for each in requests if (entry := self._take(each)) is not None]
        if len(taken) == len(requests):
            return taken
        found = {entry.key: entry for entry in taken}
        while missing := [each for each in requests if each.key not in found]:
            if self._left:
                raise self.diverged(missing[0].key)
            self.check_new(missing)
            got = self._perform(missing)
            if not isinstance(got, list):
                return got
            for entry in got:
                self.known[entry.key] = found[entry.key] = entry
        return [found[each.key] for each in requests]
