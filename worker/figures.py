"""RoundFigures: what the rounds of one process came to, added up until it is written to the server, about once a second.

What a transition counts is exact; these are not. A process that is killed takes at most the figures of its last second along, and those
whose write was not confirmed are written again. Their number is bounded: flows, nodes and buckets, however many rounds and runs there are.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from worker.store import AccessDenied, Store, StoreUnavailable

logger = logging.getLogger("holdfast.metrics")

#: Upper ends of the buckets that durations are counted in (seconds): from a round of a pure command to one of an hour.
BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
LABELS = (*map(str, BUCKETS), "+Inf")
#: What of what rounds spend is a figure; other names are their flows' own, and may be any number.
SPENT = ("tokens", "input_tokens", "output_tokens", "requests", "money")


class RoundFigures:
    """Adds up; any thread may tell it of a round, and one writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pid = os.getpid()
        self._amounts: dict[tuple[str, ...], float] = {}
        self._denied = False

    def round(self, flow: str, node: str, outcome: str, took: int) -> None:
        """A round was played, and this came of it (the word of its commit); ``took`` in ms."""
        self._add([(("rounds", flow, node, outcome), 1), (("took", flow, node, _bucket(took)), 1), (("took_ms", flow, node), took)])

    def waited(self, role: str, ms: int) -> None:
        """A round was claimed so long after it had been queued for workers of this role."""
        self._add([(("waited", role, _bucket(ms)), 1), (("waited_ms", role), max(0, ms))])

    def spent(self, flow: str, amounts: Mapping[str, float]) -> None:
        """A round has spent this, whatever became of it."""
        if amounts:
            self._add((("spent", flow, name), amounts[name]) for name in SPENT if amounts.get(name, 0) > 0)

    def flush(self, store: Store) -> None:
        """Write what has been added up, in one exchange; what could not be written is kept for the next time.

        What another thread is writing has been written when this returns.
        """
        with self._writing:
            self._write(store)

    def _write(self, store: Store) -> None:
        with self._lock:
            amounts, self._amounts = self._current(), {}
        if not amounts:
            return
        try:
            store.figures.add({json.dumps(name): amount for name, amount in amounts.items()})
        except AccessDenied as error:
            if not self._denied:
                logger.warning("figures of rounds are lost, /metrics will not show them: %s", error)
            self._denied = True
        except StoreUnavailable as error:
            logger.debug("figures of rounds wait for the server: %s", error)
            self._add(amounts.items())

    def _add(self, amounts: Iterable[tuple[tuple[str, ...], float]]) -> None:
        with self._lock:
            current = self._current()
            for name, amount in amounts:
                current[name] = current.get(name, 0) + amount

    def _current(self) -> dict[tuple[str, ...], float]:
        """Those of this process: a fork copies its parent's."""
        if os.getpid() != self._pid:
            self._pid, self._amounts = os.getpid(), {}
        return self._amounts


def _bucket(ms: int) -> str:
    return LABELS[bisect_left(BUCKETS, ms / 1000)]
