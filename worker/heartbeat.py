"""Heartbeat: one thread a process that extends the leases of all its rounds and hears their stop requests."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flows.context import Signals
from worker.store import Store, StoreUnavailable

logger = logging.getLogger("holdfast.heartbeat")

#: How long a round whose lease is lost may go on until it counts as lingering: enough to end a command and clean up.
LINGER_SECONDS = 10.0
#: Of an outage.
NOT_EXTENDED = "the leases of rounds could not be extended"


@dataclass(eq=False)
class Lease:
    """The right to commit one round, as long as it is extended.

    ``time_limit`` (seconds) is the round's own, ``ends`` the moment (monotonic seconds) when it is over.
    """

    run_id: str
    token: str
    claim: str
    time_limit: float | None = None
    ends: float | None = None
    signals: Signals = field(default_factory=Signals)
    timed_out: bool = False
    lost: bool = False
    #: When (monotonic seconds) a round whose lease is lost has had time enough to return.
    patience: float | None = None
    #: Why the run could not be read in the middle of the round.
    broken: Exception | None = None


class Heartbeat:
    """Extends leases every ``interval`` seconds while there are any.

    The thread starts with the first lease of the process, so it runs where the rounds run, in a forked child as well.
    ``lingers`` is called, once, with a lease that was lost and whose round has not returned long after it was told; ``beside`` after each
    beat, with the store: what else this process tells about once a second.
    """

    def __init__(
        self,
        store: Store,
        interval: float,
        lingers: Callable[[Lease], None] = lambda lease: None,
        beside: Callable[[Store], None] = lambda store: None,
    ) -> None:
        self._store = store
        self._interval = interval
        self._lingers = lingers
        self._beside = beside
        self._thread: threading.Thread | None = None
        self._forget_parent()

    def hold(self, run_id: str, token: str, claim: str, time_limit: float | None) -> Lease:
        """Take care of a lease from now on; ``claim`` is the id of what it was granted to, ``time_limit`` in seconds ends its round."""
        if os.getpid() != self._pid:
            self._forget_parent()
        lease = Lease(run_id, token, claim)
        with self._lock:
            self._leases.add(lease)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat_forever, name="holdfast-heartbeat", daemon=True)
                self._thread.start()
        if time_limit is not None:
            self.limit(lease, time_limit)
        return lease

    def limit(self, lease: Lease, seconds: float) -> None:
        """End the lease's round ``seconds`` from now at the latest."""
        ends = time.monotonic() + seconds
        with self._changed:
            if lease.ends is None or ends < lease.ends:
                lease.time_limit, lease.ends = seconds, ends
                self._changed.notify()

    def release(self, lease: Lease) -> None:
        """The round is over: its lease needs no care any more."""
        with self._lock:
            self._leases.discard(lease)

    @property
    def leases(self) -> list[Lease]:
        """The leases held now."""
        with self._lock:
            return list(self._leases)

    def __len__(self) -> int:
        """How many are held now."""
        return len(self._leases)

    def beat(self) -> None:
        """Extend all leases once, and pass on what the store says of each."""
        leases = self.leases
        now = time.monotonic()
        limits = [None if lease.ends is None else round(1000 * max(0.0, lease.ends - now)) for lease in leases]
        words = self._store.extend(
            [(lease.run_id, lease.token, _progress(lease)) for lease in leases], limits, [lease.claim for lease in leases]
        )
        for lease, word in zip(leases, words, strict=True):
            if word == "stop":
                lease.signals.stop_requested = True
            elif word in ("lost", "damaged"):
                if not lease.lost:
                    lease.lost, lease.patience = True, now + LINGER_SECONDS
                lease.signals.cancelled.set()

    def _forget_parent(self) -> None:
        """Start anew: a fork copies the parent's leases, but not its thread."""
        self._pid = os.getpid()
        self._leases: set[Lease] = set()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread = None

    def _beat_forever(self) -> None:
        next_beat = time.monotonic() + self._interval
        while True:
            with self._changed:
                limits = [lease.ends for lease in self._leases if lease.ends is not None and not lease.timed_out]
                self._changed.wait(max(0.0, min([next_beat, *limits]) - time.monotonic()))
            now = time.monotonic()
            for lease in self.leases:
                if lease.ends is not None and now >= lease.ends and not lease.timed_out:
                    lease.timed_out = True
                    lease.signals.cancelled.set()
            if now < next_beat:
                continue
            next_beat = now + self._interval
            for lease in self.leases:
                if lease.patience is not None and now >= lease.patience:
                    lease.patience = None
                    self._lingers(lease)
            try:
                self.beat()
                self._store.outage.passed(NOT_EXTENDED)
                self._beside(self._store)
            except StoreUnavailable as error:
                self._store.outage.failed(NOT_EXTENDED, error)
            except BaseException:
                # The thread must outlive any surprise: without it every lease of this process would lapse.
                logger.exception("a heartbeat failed, trying again")


def _progress(lease: Lease) -> str:
    progress = lease.signals.progress
    return "" if progress is None else json.dumps(dict(progress), default=str)
