"""Statistics of this process's rounds, written about once a second.

The counts that a transition makes are exact, but these are not. A process that is killed loses at
most its last second. A write whose reply was lost is repeated, and then counts twice. The number of
counters depends on the number of flows, nodes and buckets, not on the number of rounds and runs.
"""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from perdure.worker.store import AccessDenied, Store, StoreUnavailable

logger = logging.getLogger("perdure.metrics")

#: Upper bounds of the duration buckets in seconds, from a round of a pure command to one of an
#: hour.
BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
LABELS = (*map(str, BUCKETS), "+Inf")
#: The spent amounts that become metrics. Other names are the flows' own, and may be any number.
SPENT = ("tokens", "input_tokens", "output_tokens", "cached_tokens", "requests", "money")


class RoundStats:
    """The unwritten counts and sums of this process's rounds.

    Any thread may add to them. One thread at a time writes them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pid = os.getpid()
        self._amounts: dict[tuple[str, ...], float] = {}
        self._denied = False

    def round(self, flow: str, node: str, outcome: str, took: int) -> None:
        """Count a round, with its duration.

        Args:
            outcome: The word of the round's commit, such as ``continued``.
            took: Duration of the round in ms.
        """
        self._add(
            [
                (("rounds", flow, node, outcome), 1),
                (("took", flow, node, _bucket(took)), 1),
                (("took_ms", flow, node), took),
            ]
        )

    def waited(self, role: str, ms: int) -> None:
        """Count how long a message waited in its queue.

        Args:
            ms: The time in milliseconds.
        """
        self._add([(("waited", role, _bucket(ms)), 1), (("waited_ms", role), max(0, ms))])

    def spent(self, flow: str, amounts: Mapping[str, float]) -> None:
        """Add the tokens, requests and money of a round to its flow's metrics.

        Other amounts are ignored. The round counts even if it failed.
        """
        if amounts:
            self._add(
                (("spent", flow, name), amounts[name]) for name in SPENT if amounts.get(name, 0) > 0
            )

    def flush(self, store: Store) -> None:
        """Write the collected statistics in one exchange.

        If the server does not answer, they are kept for the next call. If this user may not write
        them, they are lost, and a warning is logged once. If another thread is writing, this call
        waits for it.
        """
        with self._writing:
            self._write(store)

    def _write(self, store: Store) -> None:
        with self._lock:
            amounts, self._amounts = self._current(), {}
        if not amounts:
            return
        try:
            store.figures.add(amounts)
        except AccessDenied as error:
            if not self._denied:
                logger.warning(
                    "figures of rounds are lost, /metrics or the dashboard's charts "
                    "will not show them: %s",
                    error,
                )
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
        """Return this process's counts that are not written yet.

        A forked process drops the counts that it copied from its parent.
        """
        if os.getpid() != self._pid:
            self._pid, self._amounts = os.getpid(), {}
        return self._amounts


def _bucket(ms: int) -> str:
    return LABELS[bisect_left(BUCKETS, ms / 1000)]
