"""Pages of runs by time.

A page comes from the indexes of statuses or from the index of a submitter. For a filter that no
index answers, a scan reads a bounded number of runs for each page. It first reads only the
*deciding fields*, which show whether a run matches, and then the whole records of matching runs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Page, Run, RunStatus, status_of
from perdure.worker.domain.run_query import (
    SORTED_AFTER_READING,
    RunQuery,
    cost_of,
    duration_of,
)
from perdure.worker.errors import DamagedRun
from perdure.worker.operations import validation
from perdure.worker.operations.merged_runs import MergedRuns
from perdure.worker.operations.validation import ALL, OWN
from perdure.worker.store import Store
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES

#: Begins the positions before all entries of the indexes, in each order: a score later than any
#: clock. The id of the last listed run that the query names follows, or ``-`` behind them all.
BEGIN = f"{10**15 - 1}.0:"
#: Fields that a page leaves out because they are long. Reading the run itself returns them.
LEFT_OUT = ("traceback",)
#: Number of runs whose deciding fields are read in one exchange, about 7 ms.
SCANNED = 500
#: ``SCANNED`` if inputs decide: the inputs of one run may take a megabyte.
SCANNED_WITH_INPUTS = 50
#: Number of runs to sort by duration or cost, if the caller sets no bound.
SORTED = 2000
#: Number of entries whose ids can be checked for the cost of reading one run's fields.
IDS_FOR_ONE = 3
#: Field that every scan reads. A run without it, and without the others, is gone or damaged.
ALWAYS_READ = ("phase",)
LIVE = (RunStatus.QUEUED, RunStatus.RUNNING)


@dataclass(frozen=True)
class RunFilter:
    """Filter for a list of runs. A run must match all fields that are set.

    Attributes:
        children: Whether child runs match too.
        query: A parsed query line.
        now: The time (ms) from which the ages in the query are counted.
    """

    status: RunStatus | None = None
    flow: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    submitted_by: str | None = None
    children: bool = False  # child runs too
    thread_id: str | None = None
    query: RunQuery = field(default_factory=RunQuery)
    now: float = 0.0

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of the indexes with matching runs. ``OWN`` is the submitter's index."""
        has_children = self.children or self.query.children
        if self.submitter is not None and not has_children:
            return (OWN,)
        statuses = self.query.statuses if self.status is None else {self.status}
        wanted = {"live" if each in LIVE else each.value for each in statuses}
        chosen = tuple(name for name in INDEXES if name in wanted)
        if has_children:
            chosen += tuple(CHILD_INDEXES[INDEXES.index(name)] for name in chosen)
        return chosen

    @property
    def submitter(self) -> str | None:
        """The only submitter whose runs can match. None: runs of all submitters can match."""
        return self.query.submitter if self.submitted_by is None else self.submitted_by

    @property
    def order(self) -> str:
        """The name of the list's order. It is the first part of each cursor of this list."""
        sort = "" if self.query.sort == "newest" else f"{self.query.sort}-"
        return sort + (self.indexes[0] if len(self.indexes) == 1 else ALL)

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields that decide whether a run matches. Empty: all runs of the indexes match."""
        names = [*self.query.reads]
        for wanted, name in (
            (self.flow, "flow"),
            (self.submitted_by, "submitted_by"),
            (self.thread_id, "thread_id"),
            (self.labels or None, "labels"),
        ):
            if wanted is not None:
                names.append(name)
        if self.status in LIVE or (self.status is not None and self.indexes == (OWN,)):
            names += ["phase", "started_at"]
        return tuple(dict.fromkeys((*ALWAYS_READ, *names))) if names or self.query.terms else ()

    @property
    def batch_size(self) -> int:
        """The number of runs whose deciding fields one exchange with the state server reads."""
        return SCANNED_WITH_INPUTS if "inputs" in self.reads else SCANNED

    def fits(self, fields: Mapping[str, str]) -> bool:
        """Return whether a run's hash fields match this filter.

        Raises:
            DamagedRun: A field of the run cannot be read.
        """
        if self.flow is not None and fields.get("flow") != self.flow:
            return False
        if self.submitted_by is not None and fields.get("submitted_by") != self.submitted_by:
            return False
        if self.thread_id is not None and fields.get("thread_id") != self.thread_id:
            return False
        if self.status is not None and status_of(fields) is not self.status:
            return False
        if self.labels and not self.labels.items() <= Record(fields).mapping("labels").items():
            return False
        return self.query.fits(fields, self.now)


def list_runs(
    store: Store,
    wanted: RunFilter,
    limit: int,
    look: int | None,
    place: tuple[str, str] | None,
    cursor: str | None,
) -> Page:
    """Return a page of matching runs, in the query's order.

    Several indexes are merged by time, so a run that has just failed comes before older ones.

    Args:
        wanted: The filter.
        limit: Maximum number of runs on the page.
        look: Maximum number of runs to look at. None means no maximum, but ``SORTED`` runs for a
            list that is sorted by duration or cost.
        place: The order and the position of the cursor. None means the beginning.
        cursor: The cursor as the caller passed it, for the error text.

    Raises:
        InvalidInput: The cursor belongs to a list with another order.
    """
    order, position = place or (wanted.order, "")
    if order != wanted.order:
        raise validation.wrong("cursor", "that of a page of the same status and submitter", cursor)
    has_begun = position != "" and not position.startswith(BEGIN)
    scan = RunScan(store, wanted, position if has_begun else None)
    scan.leave_out(wanted.query.named_ids)
    named = [] if has_begun else _named_after(wanted.query.named_ids, position)
    if wanted.query.sort in SORTED_AFTER_READING:
        return _sorted_page(scan, wanted, named, limit, SORTED if look is None else look)
    batch_size = limit  # Often all of the first ones match, as with a status that most runs have.
    matching = scan.read([ScannedRun(run_id, 0.0, {}) for run_id in named])[:limit]
    if len(matching) == limit:
        return Page(matching, f"{order}|{BEGIN}{matching[-1].id}", tuple(scan.damaged))
    while True:
        batch = batch_size if look is None else min(batch_size, look - scan.looked)
        if batch <= 0:
            return Page(matching, f"{order}|{scan.position}", tuple(scan.damaged))
        candidates = scan.take(batch)
        # A batch may have more matches than the page takes. Their records are not read.
        while candidates:
            part = candidates[: limit - len(matching)]
            candidates = candidates[len(part) :]
            matching += scan.read(part)
            if len(matching) == limit:
                return Page(matching, f"{order}|{part[-1].position}", tuple(scan.damaged))
        if scan.is_over:
            return Page(matching, damaged=tuple(scan.damaged))
        if wanted.reads:
            batch_size = wanted.batch_size


def _named_after(named_ids: Sequence[str], position: str) -> Sequence[str]:
    """Return the ids that a query names, without those before a position that begins with BEGIN."""
    last = position.removeprefix(BEGIN)
    if not last:
        return named_ids
    return named_ids[named_ids.index(last) + 1 :] if last in named_ids else ()


def _sorted_page(
    scan: RunScan, wanted: RunFilter, named: Sequence[str], limit: int, look: int
) -> Page:
    """Return the matching runs with the largest duration or cost among the next ``look`` runs.

    A run whose duration or cost cannot be read is listed as damaged.

    Args:
        named: Ids that the query names. Those of matching runs are ranked with the others.
    """
    amount_of = cost_of if wanted.query.sort == "cost" else partial(duration_of, now=wanted.now)
    candidates = [each for each in scan.fitting([(run_id, 0.0) for run_id in named]) if each.fields]
    while not scan.is_over and scan.looked < look:
        candidates += scan.take(min(wanted.batch_size, look - scan.looked))
    ranked: list[tuple[float, ScannedRun]] = []
    for candidate in candidates:
        try:
            ranked.append((amount_of(candidate.fields), candidate))
        except DamagedRun:
            ranked.append((math.inf, candidate))
    largest = heapq.nlargest(limit, ranked, key=itemgetter(0))
    runs = scan.read([candidate for _, candidate in largest])
    cursor = None if scan.is_over else f"{wanted.order}|{scan.position}"
    return Page(runs, cursor, tuple(scan.damaged))


class ScannedRun(NamedTuple):
    """A run that may match.

    Attributes:
        run_id: the id of the run.
        score: the score of the run in the index (ms).
        fields: the deciding fields of the run. Empty if none were read.
    """

    run_id: str
    score: float
    fields: Mapping[str, str]

    @property
    def position(self) -> str:
        """The position of the run in the list, as a cursor has it ("score:id")."""
        return f"{self.score}:{self.run_id}"


class RunScan:
    """A scan of index entries, in order, for runs that match a filter.

    Args:
        wanted: the filter.
        after: the position after which the scan begins. None: the beginning.
        more: fields to read in addition to the deciding fields.

    Attributes:
        looked: the cost of the scan so far, as a number of entries whose fields were read.
        position: the position of the last scanned entry.
        is_over: whether no entries are left.
        damaged: the ids of runs that cannot be read.
    """

    def __init__(
        self, store: Store, wanted: RunFilter, after: str | None, more: Sequence[str] = ()
    ) -> None:
        self._store = store
        self._wanted = wanted
        self._own = wanted.submitter if wanted.indexes == (OWN,) else None
        self._names = tuple(dict.fromkeys((*wanted.reads, *more)))
        spans = {name: wanted.query.times(name, wanted.now) for name in wanted.indexes}
        is_ascending = wanted.query.sort == "oldest"
        self._merged = MergedRuns(store, spans, self._own, after, is_ascending)
        self._left_out: set[str] = set()
        self.looked = 0
        self.position = after or f"{BEGIN}-"
        self.is_over = False
        self.damaged: list[str] = []

    def take(self, count: int) -> list[ScannedRun]:
        """Scan the next entries, and return the runs that may match.

        Only the deciding fields are read. A run that has none of them, or damaged ones, is returned
        too: ``read`` detects whether it is deleted or damaged.

        Args:
            count: the number of entries to scan. If the query has prefixes of ids, ``IDS_FOR_ONE``
                times as many are scanned.
        """
        prefixes = self._wanted.query.id_prefixes
        ids = count * IDS_FOR_ONE if prefixes else count
        entries = self._merged.take(ids)
        self.is_over = len(entries) < ids
        self.looked += count
        if entries:
            self.position = f"{entries[-1][1]}:{entries[-1][0]}"
        return self.fitting(
            [
                (run_id, score)
                for run_id, score in entries
                if run_id not in self._left_out and (not prefixes or run_id.startswith(prefixes))
            ]
        )

    def fitting(self, entries: Sequence[tuple[str, float]]) -> list[ScannedRun]:
        """Return the possible matches among entries, which are ids with their scores."""
        if not self._names:
            return [ScannedRun(run_id, score, {}) for run_id, score in entries]
        read = self._store.reads.many_fields([run_id for run_id, _ in entries], self._names)
        return [
            ScannedRun(run_id, score, fields)
            for (run_id, score), fields in zip(entries, read, strict=True)
            if self._may_fit(run_id, fields)
        ]

    def read(self, candidates: Sequence[ScannedRun]) -> list[Run]:
        """Read the whole records of candidates, and return the runs that match.

        The ids of damaged runs are added to ``damaged``. Deleted runs are left out. If the scan
        reads the index of a submitter, their ids are removed from this index.
        """
        ids = [candidate.run_id for candidate in candidates]
        matching: list[Run] = []
        gone: list[str] = []
        for run_id, fields in zip(ids, self._store.reads.records(ids), strict=True):
            if fields is None:
                gone.append(run_id)
                continue
            try:
                if self._wanted.fits(fields):
                    matching.append(Run.of(Record(_without_long(fields))))
            except DamagedRun:
                self.damaged.append(run_id)
        if gone and self._own is not None:
            self._store.lists.forget_submitted(self._own, gone)
        return matching

    def leave_out(self, run_ids: Iterable[str]) -> None:
        """Skip these runs in the scan. The list has them already, because the query names them."""
        self._left_out.update(run_ids)

    def _may_fit(self, run_id: str, fields: dict[str, str]) -> bool:
        if not fields:
            return True
        fields["id"] = run_id
        try:
            return self._wanted.fits(fields)
        except DamagedRun:
            return True


def _without_long(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in fields.items() if name not in LEFT_OUT}
