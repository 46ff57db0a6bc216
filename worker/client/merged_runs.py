"""MergedRuns: the entries of several indexes of runs as one list, by time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from perdure.worker.store import Store

#: Sorts after every run id.
AFTER_ALL_IDS = "\U0010ffff"
#: All times.
ALWAYS = (-math.inf, math.inf)


class MergedRuns:
    """The entries of several indexes as one list, newest first or oldest first.

    Each index is read in batches.

    Args:
        spans: for each index the earliest and the latest score (ms) of its entries to list.
        submitter: list the runs of this submitter's index instead.
        after: return only entries behind this position ("score:id") of the list.
        oldest_first: the order of the list.
    """

    def __init__(
        self,
        store: Store,
        spans: Mapping[str, tuple[float, float]],
        submitter: str | None = None,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> None:
        self._store = store
        self._submitter = submitter
        self._oldest_first = oldest_first
        self._spans = spans
        self._read: dict[str, deque[tuple[str, float]]] = {name: deque() for name in spans}
        self._ends = {name: self._begin(span, after) for name, span in spans.items()}
        self._taken: set[str] = set()

    def take(self, count: int) -> list[tuple[str, float]]:
        """Return the next ``count`` runs of the merged indexes, as pairs of run id and score.

        Fewer are returned only at the end. A run that moved between two indexes in the meantime
        comes once.
        """
        first = min if self._oldest_first else max
        taken: list[tuple[str, float]] = []
        while len(taken) < count:
            for name in [name for name, entries in self._read.items() if not entries]:
                self._read_batch(name, count)
            if not self._read:
                break
            name = first(self._read, key=self._head)
            run_id, score = self._read[name].popleft()
            if run_id not in self._taken:
                self._taken.add(run_id)
                taken.append((run_id, score))
        return taken

    def _begin(self, span: tuple[float, float], after: str | None) -> str | None:
        """Return the position behind which an index is read, or None for its beginning."""
        low, high = span
        bound = None
        if self._oldest_first and low > -math.inf:
            bound = f"{low}:"
        elif not self._oldest_first and high < math.inf:
            bound = f"{high}:{AFTER_ALL_IDS}"
        if bound is None or after is None:
            return after or bound
        return (max if self._oldest_first else min)(bound, after, key=position_of)

    def _head(self, name: str) -> tuple[float, str]:
        run_id, score = self._read[name][0]
        return score, run_id

    def _read_batch(self, name: str, count: int) -> None:
        end, (low, high) = self._ends[name], self._spans[name]
        entries = (
            self._store.listed(name, count, end, self._oldest_first)
            if self._submitter is None
            else self._store.submitted(self._submitter, count, end, self._oldest_first)
        )
        within = [entry for entry in entries if low <= entry[1] <= high]
        if within:
            run_id, score = within[-1]
            self._ends[name] = f"{score}:{run_id}"
            self._read[name].extend(within)
        else:
            del self._read[name]


def position_of(text: str) -> tuple[float, str]:
    """Return a position in an index, such as ``1718000000000.0:ID``, as a score and an id."""
    score, _, run_id = text.partition(":")
    return float(score), run_id
