"""WaitingRuns: the runs that wait for a person, longest wait first, from a bounded read.

The indexes are ordered by the time of submission. No run began to wait before it was submitted. So
all runs that are read later began to wait after the submission time of the last run that was read.
A run that began to wait before that time is a result at once.

With very many waiting runs, a read could still reach all of them. So one read ends after
``LOOKED_AT`` runs. These runs are its *window*. The next page continues after the window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from perdure.worker.domain.record import Record
from perdure.worker.operations.merged_runs import position_of
from perdure.worker.store import Store
from perdure.worker.store.queries import ALWAYS

#: Number of runs that are read at first, and in each further exchange.
FIRST, BATCH = 100, 1000
#: Number of runs in a window. Reading them takes about 20 ms of the state server.
LOOKED_AT = 5_000
#: The indexes of runs that wait for a person.
INDEXES = ("interrupted", "interrupted:children")
#: Since when a run waits (ms), and its id.
Entry = tuple[int, str]


class WaitingRuns:
    """One window of runs that wait for a person.

    Args:
        submitted_by: only the runs of this submitter. None: the runs of all submitters.
        below: only runs below this run. Then the window has no bound. None: all runs.
        start: the position ("score:id") after which the window begins. Empty: the beginning.
        end: the position at which the window ends, if an earlier page has read the whole window.
            Empty: the window ends after ``LOOKED_AT`` runs.

    Attributes:
        start: see the argument.
        end: the position at which the window ends. Empty while it is not known, or if no run comes
            after the window.
        is_last: whether no run comes after the window. It is valid only after all entries were
            read.
    """

    def __init__(
        self,
        store: Store,
        submitted_by: str | None,
        below: Record | None,
        start: str = "",
        end: str = "",
    ) -> None:
        self._store, self._submitted_by, self._below = store, submitted_by, below
        self.start, self.end = start, end
        self.is_last = False
        self._own: str | None = None
        keys = [store.keys.index(index) for index in INDEXES]
        if below is not None:
            keys = keys[1:]
        elif submitted_by is not None:
            # If a submitter has few runs, they are read instead of all waiting runs.
            own = store.keys.submitted(submitted_by)
            sizes = store.lists.sizes([own, keys[0]])
            keys[0] = own if sizes[0] < sizes[1] else keys[0]
        self._spans = dict.fromkeys(keys, ALWAYS)

    def entries(self) -> Iterator[Entry]:
        """Yield the runs of the window, longest wait first."""
        known: list[Entry] = []
        for found, submitted in self._batches():
            for entry in found:
                heappush(known, entry)
            while known and known[0][0] < submitted:
                yield heappop(known)
        while known:
            yield heappop(known)

    def _batches(self) -> Iterator[tuple[list[Entry], float]]:
        """Yield the window's runs in batches, first submitted first.

        Each batch comes with a time (ms). All runs of later batches were submitted at this time or
        after it. The last batch comes with infinity.
        """
        after, count, left = self.start, FIRST, self._most
        while True:
            wanted = min(count, left)
            listed = self._store.lists.entries(
                self._spans, wanted, after or None, oldest_first=True
            )
            ends = len(listed) < wanted
            within = listed
            if self.end:
                last = position_of(self.end)
                within = [(run_id, at) for run_id, at in listed if (at, run_id) <= last]
                ends = ends or len(within) < len(listed)
            elif not ends and len(listed) == left:
                self.end, ends = f"{listed[-1][1]}:{listed[-1][0]}", True
            if ends:
                behind = self.end or None
                self.is_last = behind is None or not self._store.lists.entries(
                    self._spans, 1, behind, oldest_first=True
                )
                yield self._waiting(within), math.inf
                return
            yield self._waiting(within), listed[-1][1]
            after, count = f"{listed[-1][1]}:{listed[-1][0]}", BATCH
            left -= 0 if self.end else len(listed)

    @property
    def _most(self) -> int:
        return LOOKED_AT if self._below is None else 10**9

    def _waiting(self, listed: Sequence[tuple[str, float]]) -> list[Entry]:
        """Return the listed runs that wait for a person and match the arguments of this object.

        A damaged run without a phase is returned too.
        """
        names = ["updated_at", "phase", "submitted_by", "root", "parent"]
        fields_of = self._store.reads.many_fields([run_id for run_id, _ in listed], names)
        found: dict[Entry, dict[str, str]] = {}
        for (run_id, submitted), fields in zip(listed, fields_of, strict=True):
            # Runs of a submitter's index may be in any phase. A damaged run has no phase.
            waits = fields.get("phase", "interrupted") == "interrupted"
            if waits and self._submitted_by in (None, fields.get("submitted_by")):
                since = max(int(submitted), _ms(fields.get("updated_at", "")))
                found[since, run_id] = fields
        return list(found) if self._below is None else self._those_below(self._below, found)

    def _those_below(self, record: Record, found: dict[Entry, dict[str, str]]) -> list[Entry]:
        root = record.fields.get("root", record.id)
        above = {
            entry: fields.get("parent", "")
            for entry, fields in found.items()
            if fields.get("root") == root
        }
        below: list[Entry] = []
        while above:  # one generation further up each time
            below += [entry for entry, parent in above.items() if parent == record.id]
            above = {
                entry: parent
                for entry, parent in above.items()
                if parent not in ("", record.id, root)
            }
            parents = sorted(set(above.values()))
            read = self._store.reads.some_fields(parents, ["parent"])
            parent_of = {
                run_id: fields.get("parent", "")
                for run_id, fields in zip(parents, read, strict=True)
            }
            above = {entry: parent_of[parent] for entry, parent in above.items()}
        return below


def _ms(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0
