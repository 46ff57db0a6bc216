"""MergedRuns: the entries of several indexes of runs as one list, by time."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.worker.store import Store


class MergedRuns:
    """The entries of several indexes as one ordered list.

    All indexes are read at the same moment. So a run stays at its position in the list when it
    moves to another index, for example because it now waits for a person.

    Args:
        spans: the earliest and the latest score (ms) of the entries to list, by name of the index.
        submitter: list the runs of this submitter's index instead of the named indexes. None: list
            the named indexes.
        after: list only the entries after this position ("score:id"). None: list all entries.
        oldest_first: whether the list begins with the oldest run. If not, it begins with the
            newest.
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
        self._spans = {
            store.keys.index(name) if submitter is None else store.keys.submitted(submitter): span
            for name, span in spans.items()
        }
        self._after = after
        self._oldest_first = oldest_first
        self._taken: set[str] = set()

    def take(self, count: int) -> list[tuple[str, float]]:
        """Return id and score of the next ``count`` runs, or of fewer at the end of the list.

        A run is returned only once, even if its score changed between two calls because it ended or
        was retried.
        """
        taken: list[tuple[str, float]] = []
        while len(taken) < count:
            wanted = count - len(taken)
            entries = self._store.lists.entries(
                self._spans, wanted, self._after, self._oldest_first
            )
            if entries:
                run_id, score = entries[-1]
                self._after = f"{score}:{run_id}"
            taken += [entry for entry in entries if entry[0] not in self._taken]
            self._taken.update(run_id for run_id, _ in entries)
            if len(entries) < wanted:
                break
        return taken


def position_of(text: str) -> tuple[float, str]:
    """Return an index position, such as ``1718000000000.0:ID``, as a score and an id."""
    score, _, run_id = text.partition(":")
    return float(score), run_id
